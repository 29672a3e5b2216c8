//go:build integration

package neighbours

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/drain"

	"windlass.dev/windlass/test/framework"
)

// TestDrainReplacesPodsAndKeepsVolume drains the node of the Pods of one namespace, with the code of `kubectl drain`.
// The App and the Database get other Pods, and the Database keeps its claim and its credentials. A command that has
// ended does not run again.
func TestDrainReplacesPodsAndKeepsVolume(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	apply(t, namespace, smallest)
	const all = 3
	ready := func() {
		t.Helper()
		framework.Eventually(t, "the objects to be Ready", func(ctx context.Context) (bool, error) {
			_, ready, err := unready(ctx, namespace)
			return ready == all, err
		})
	}
	ready()
	before := contents(t, namespace)
	var output framework.Log
	drainer := &drain.Helper{
		Ctx: t.Context(), Client: shared.Kube, GracePeriodSeconds: -1, Force: true, DeleteEmptyDirData: true,
		Timeout: framework.Patience, Out: &output, ErrOut: &output, EvictErrorRetryDelay: 100 * time.Millisecond,
		AdditionalFilters: []drain.PodFilter{func(pod corev1.Pod) drain.PodDeleteStatus {
			if pod.Namespace == namespace {
				return drain.MakePodDeleteStatusOkay()
			}
			return drain.MakePodDeleteStatusSkip()
		}},
	}
	drainNamespace(t, drainer)
	ready()
	after := contents(t, namespace)
	for name, object := range before {
		if object["kind"] == "Pod" {
			if name == "Pod orders-0" && uidOf(after[name]) == uidOf(object) {
				t.Errorf("%s was not evicted; output of the drain:\n%s", name, output.String())
			}
			continue
		}
		if uidOf(after[name]) != uidOf(object) {
			t.Errorf("%s was deleted or replaced", name)
		}
	}
	if diff := differences(secrets(before), secrets(after)); diff != "" {
		t.Errorf("the drain changed Secrets:\n%s", diff)
	}
	if runs := podsOf(t, namespace, "migrate"); runs > 1 {
		t.Errorf("the command of the At ran %d times", runs)
	}
}

// drainNamespace evicts the Pods on the only node that the filters of a drainer select, and waits until they are gone.
func drainNamespace(t *testing.T, drainer *drain.Helper) {
	t.Helper()
	nodes, err := shared.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 {
		t.Fatalf("the cluster has %d nodes: %v", len(nodes.Items), err)
	}
	pods, failures := drainer.GetPodsForDeletion(nodes.Items[0].Name)
	if len(failures) > 0 {
		t.Fatalf("choosing the Pods: %v", failures)
	}
	if err := drainer.DeleteOrEvictPods(pods.Pods()); err != nil {
		t.Fatalf("evicting the Pods: %v", err)
	}
}

// secrets returns the Secrets among the contents of a namespace.
func secrets(all map[string]map[string]any) map[string]map[string]any {
	found := map[string]map[string]any{}
	for name, object := range all {
		if object["kind"] == "Secret" {
			found[name] = object
		}
	}
	return found
}

// podsOf returns how many Pods the operator has created for the At with a name.
func podsOf(t *testing.T, namespace, at string) int {
	t.Helper()
	created, err := shared.Requests(func(r framework.Request) bool {
		return r.Verb == "create" && r.ObjectRef.Resource == "pods" && r.ObjectRef.Namespace == namespace &&
			r.User.Username == framework.ControllerUser && r.ResponseStatus.Code < 300
	})
	if err != nil {
		t.Fatal(err)
	}
	return len(slices.DeleteFunc(created, func(r framework.Request) bool {
		return r.ObjectRef.Name != at && r.ObjectRef.Name != at+"-pod"
	}))
}
