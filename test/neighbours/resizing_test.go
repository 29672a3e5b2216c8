//go:build integration

package neighbours

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// sized is one object of each kind whose Pods have requests, which the VerticalPodAutoscaler changes.
const sized = `
{apiVersion: windlass.dev/v1alpha1, kind: App, metadata: {name: web}, spec: {image: "web:1",
  resources: {requests: {cpu: 100m}}}}
---
{apiVersion: windlass.dev/v1alpha1, kind: Database, metadata: {name: orders},
  spec: {version: "17", storage: {size: 1Gi}, resources: {requests: {cpu: 100m}}}}
---
{apiVersion: cnat.programming-kubernetes.info/v1, kind: At, metadata: {name: migrate},
  spec: {schedule: "2020-01-01T00:00:00Z", command: ["sleep", "infinity"], resources: {requests: {cpu: 100m}}}}
`

// TestResizedPodsStayAsTheyAre resizes the Pods of each kind in place, with the request that the updater of the
// VerticalPodAutoscaler sends. The operator neither reverts the resources nor replaces a Pod. A VerticalPodAutoscaler
// can also evict Pods and change the new Pods at admission: see TestDrainReplacesPodsAndKeepsVolume and additions.
func TestResizedPodsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	apply(t, namespace, sized)
	shared.AppIn(t, namespace, "web", v1alpha1.AppReady)
	shared.DatabaseIn(t, namespace, "orders", v1alpha1.DatabaseReady)
	shared.InPhase(t, namespace, "migrate", cnatv1.AtRunning)
	pods, err := shared.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 3 {
		t.Fatalf("there are %d Pods, want 3: %v", len(pods.Items), err)
	}
	for i := range pods.Items {
		resize(t, &pods.Items[i], "170m")
	}
	before := contents(t, namespace)
	rooms := []*room{{neighbour: neighbour{name: "VerticalPodAutoscaler"}, namespace: namespace}}
	writes := len(writesIn(t, rooms)["VerticalPodAutoscaler"])
	for i := range resyncs {
		resync(t, rooms, fmt.Sprintf("after the resize, %d", i))
	}
	if diff := differences(before, contents(t, namespace)); diff != "" {
		t.Errorf("after the resize, objects changed:\n%s", diff)
	}
	if all := writesIn(t, rooms)["VerticalPodAutoscaler"]; len(all) > writes {
		t.Errorf("after the resize, the operator sent %q", all[writes:])
	}
}

// resize changes the CPU request of the first container of a Pod. The API server accepts this only if the kubelet
// reports the resources of the container. The simulated kubelet does not, so resize reports them.
func resize(t *testing.T, pod *corev1.Pod, cpu string) {
	t.Helper()
	pods := shared.Kube.CoreV1().Pods(pod.Namespace)
	if _, err := pods.Patch(t.Context(), pod.Name, types.JSONPatchType, []byte(`[{"op":"add",
		"path":"/status/containerStatuses/0/resources","value":{"requests":{"cpu":"100m"}}}]`), metav1.PatchOptions{},
		"status"); err != nil {
		t.Fatalf("reporting the resources of Pod %s: %v", pod.Name, err)
	}
	if _, err := pods.Patch(t.Context(), pod.Name, types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"spec":{"containers":[{"name":%q,"resources":{"requests":{"cpu":%q}}}]}}`,
			pod.Spec.Containers[0].Name, cpu), metav1.PatchOptions{}, "resize"); err != nil {
		t.Fatalf("resizing Pod %s: %v", pod.Name, err)
	}
}
