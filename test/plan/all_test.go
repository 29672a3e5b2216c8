//go:build integration

package plan

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// maxMemory is the largest allowed resident set of a plan of hundreds of objects, in bytes.
const maxMemory = 300 << 20

// TestPlanOfManyObjectsTakesFewRequestsAndLittleMemory plans hundreds of objects of all kinds that are in their desired
// state.
func TestPlanOfManyObjectsTakesFewRequestsAndLittleMemory(t *testing.T) {
	framework.InQuarter(t)
	namespace := shared.NewNamespace(t)
	kubeconfig, username := user(t, namespace, "planner", everything)
	createConnections(t, namespace)
	const each = 50
	for i := range each {
		name := fmt.Sprintf("many-%d", i)
		shared.CreateApp(t, namespace, name, v1alpha1.AppSpec{
			Image: "web:1", Config: map[string]string{"a": name}, Probe: &v1alpha1.AppProbe{Path: "/"},
		})
		shared.CreateDatabase(t, namespace, "db-"+name, framework.SmallestDatabase())
		shared.Create(t, namespace, name, "true", func(at *cnatv1.At) { at.Spec.Suspend = new(true) })
		shared.CreateExternalDatabase(t, namespace, "outside-"+name, v1alpha1.ExternalDatabaseSpec{
			ConnectionSecretRef: v1alpha1.SecretReference{Name: "server"}, DatabaseName: name + namespace,
		})
		shared.CreatePlatform(t, fmt.Sprintf("%s-%d", namespace, i), v1alpha1.PlatformSpec{Namespace: namespace})
	}
	for i := range each {
		name := fmt.Sprintf("many-%d", i)
		shared.AppIn(t, namespace, name, v1alpha1.AppReady)
		shared.DatabaseIn(t, namespace, "db-"+name, v1alpha1.DatabaseReady)
		shared.ExternalDatabaseIn(t, namespace, "outside-"+name, v1alpha1.ExternalDatabaseReady)
	}
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	sent := func() (all []framework.Request) {
		all, err := shared.Requests(func(r framework.Request) bool {
			gone := r.ObjectRef.Resource == "namespaces" && r.ResponseStatus.Code == http.StatusNotFound // of another test
			return r.User.Username == username && r.Verb != "watch" && !gone
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	var (
		peak     int64
		requests []framework.Request
	)
	framework.Eventually(t, "a plan without the objects of earlier tests, which are being deleted",
		func(ctx context.Context) (bool, error) {
			command := exec.CommandContext(ctx, filepath.Join(root, "bin", "kubectl-windlass"), "plan", "--all", "-A")
			command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+t.TempDir())
			before := len(sent())
			var err error
			peak, err = runAndMeasure(command)
			requests = sent()[before:]
			return err == nil, nil
		})
	if peak > maxMemory {
		t.Errorf("the plan took %d MiB, want at most %d MiB", peak>>20, maxMemory>>20)
	}
	kinds := map[string]int{}
	for _, r := range requests {
		kinds[r.Verb+" "+r.ObjectRef.Resource]++
	}
	t.Logf("plan --all of %d objects: %d requests, %d MiB: %v", 5*each, len(requests), peak>>20, kinds)
	// Each resource is listed, and the connection Secret of all ExternalDatabases is read once.
	if limit := 40; len(requests) > limit {
		t.Errorf("the plan sent %d requests, want at most %d", len(requests), limit)
	}
}

// runAndMeasure runs a command, and returns the largest resident set size of the process, in bytes. It reads the size
// every millisecond, because the size of a process that has ended cannot be read.
func runAndMeasure(command *exec.Cmd) (peak int64, err error) {
	if err := command.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error)
	go func() { ended <- command.Wait() }()
	often := time.NewTicker(time.Millisecond)
	defer often.Stop()
	for {
		select {
		case err := <-ended:
			return peak, err
		case <-often.C:
			if bytes, err := framework.PeakRSS(command.Process.Pid); err == nil {
				peak = bytes
			}
		}
	}
}
