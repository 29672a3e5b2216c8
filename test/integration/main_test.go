//go:build integration

// Package integration tests the controller as it is shipped, on a real API server
// with a controller manager, a scheduler and a simulated node.
package integration

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"windlass.dev/windlass/test/cluster"
	"windlass.dev/windlass/test/world"
)

// controllerUser is whom the controller's requests come from.
const controllerUser = "system:serviceaccount:windlass-system:windlass-controller"

// shared is the place of all tests that do not break theirs.
var shared *place

func TestMain(m *testing.M) {
	code, err := withCluster(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withCluster(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "windlass-test")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if shared, err = startPlace(dir); err != nil {
		return 1, err
	}
	defer shared.Close()
	ctx := context.Background()
	leader, err := startController(ctx, shared.Cluster)
	if err != nil {
		return 1, err
	}
	standby, err := startController(ctx, shared.Cluster)
	if err != nil {
		leader.terminate()
		return 1, err
	}
	code = m.Run()
	for _, p := range []*process{standby, leader} {
		if ended := p.terminate(); ended != 0 {
			return 1, fmt.Errorf("a controller ended with exit code %d after SIGTERM; its log:\n%s", ended, p.log.String())
		}
	}
	if err := checkRights(ctx); err != nil && code == 0 {
		return 1, err
	}
	if code != 0 {
		fmt.Fprintf(os.Stderr, "the controller's log:\n%s", leader.log.String())
	}
	return code, nil
}

// install applies what a user would apply, but for the Deployment: the controller
// runs out of cluster here.
func install(ctx context.Context, c *cluster.Cluster) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	for _, manifest := range []string{"crds", "deploy/namespace.yaml", "rbac"} {
		if _, err := c.Kubectl(ctx, "", "apply", "-f", filepath.Join(root, "artifacts", manifest)); err != nil {
			return err
		}
	}
	_, err = c.Kubectl(ctx, "", "wait", "--for=condition=Established", "crd/ats.cnat.programming-kubernetes.info", "--timeout=60s")
	return err
}

// process is a controller that runs, with the rights of its service account and no
// others.
type process struct {
	command *exec.Cmd
	log     bytes.Buffer
}

func startController(ctx context.Context, c *cluster.Cluster, flags ...string) (*process, error) {
	root, err := cluster.Root()
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.ServiceAccountKubeconfig(ctx, "windlass-system", "windlass-controller")
	if err != nil {
		return nil, err
	}
	health, err := freeAddress()
	if err != nil {
		return nil, err
	}
	webhook, err := freeAddress()
	if err != nil {
		return nil, err
	}
	flags = append([]string{"--kubeconfig", kubeconfig, "-v=2", "--bind-address", health,
		"--webhook-bind-address", webhook, "--webhook-url", "https://" + webhook + "/convert"}, flags...)
	p := &process{command: exec.Command(filepath.Join(root, "bin", "controller"), flags...)}
	p.command.Stdout, p.command.Stderr = &p.log, &p.log
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the controller (`make build` makes it): %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, world.Patience, true, func(context.Context) (bool, error) {
		response, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return false, nil
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		p.terminate()
		return nil, fmt.Errorf("the controller did not become ready: %w; its log:\n%s", err, p.log.String())
	}
	return p, nil
}

// terminate ends the controller as a cluster would, and returns its exit code.
func (p *process) terminate() int {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	_ = p.command.Wait() // its exit code says it all
	return p.command.ProcessState.ExitCode()
}

// kill ends the controller without a word.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
