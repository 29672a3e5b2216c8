//go:build integration

package neighbours

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// metricsAPI lets the tests create the metrics that the HorizontalPodAutoscaler controller reads. A custom resource
// takes the place of the metrics server, which reads the kubelets.
const metricsAPI = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pods.metrics.k8s.io, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: metrics.k8s.io
  scope: Namespaced
  names: {plural: pods, singular: podmetrics, kind: PodMetrics, listKind: PodMetricsList}
  versions:
  - {name: v1beta1, served: true, storage: true,
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// TestAutoscalerOfAppScalesWithoutFight lets the controller of Kubernetes scale an App by the CPU time of its Pods. The
// operator writes nothing but the status.
func TestAutoscalerOfAppScalesWithoutFight(t *testing.T) {
	t.Parallel()
	apply(t, metav1.NamespaceDefault, metricsAPI)
	namespace := shared.NewNamespace(t)
	apply(t, namespace, `{apiVersion: windlass.dev/v1alpha1, kind: App, metadata: {name: web}, spec: {image: "web:1",
		resources: {requests: {cpu: 100m}}, autoscaling: {minReplicas: 2, maxReplicas: 5}}}`)
	app := func(replicas int32) *v1alpha1.App {
		t.Helper()
		return shared.AppWith(t, namespace, "web", fmt.Sprintf("Ready with %d replicas", replicas),
			func(app *v1alpha1.App) bool {
				report(t, namespace, "500m")
				return app.Status.Phase == v1alpha1.AppReady && app.Status.Replicas == replicas
			})
	}
	app(2)
	before := deploymentWrites(t, namespace)
	app(5)
	if after := deploymentWrites(t, namespace); !slices.Equal(before, after) {
		t.Errorf("while the autoscaler scaled the Deployment, the operator sent %q", after[len(before):])
	}
}

// report sets the CPU usage of each Pod in a namespace.
func report(t *testing.T, namespace, cpu string) {
	t.Helper()
	pods, err := shared.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var items []any
	for i := range pods.Items {
		pod := &pods.Items[i]
		items = append(items, map[string]any{
			"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
			"metadata": map[string]any{"name": pod.Name, "labels": pod.Labels},
			// The controller ignores the CPU usage of a Pod that was not ready for a whole window.
			"timestamp":  time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
			"window":     "30s",
			"containers": []any{map[string]any{"name": "app", "usage": map[string]any{"cpu": cpu, "memory": "10Mi"}}},
		})
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	if len(items) > 0 {
		_, _ = shared.Kubectl(t.Context(), string(text), "apply", "-n", namespace, "-f", "-") // the CRD may be new
	}
}

// deploymentWrites returns the operator's writes of Deployments in a namespace.
func deploymentWrites(t *testing.T, namespace string) (writes []string) {
	t.Helper()
	requests, err := shared.Requests(func(r framework.Request) bool {
		return r.User.Username == framework.ControllerUser && r.ObjectRef.Namespace == namespace &&
			r.ObjectRef.Resource == "deployments" && !slices.Contains([]string{"get", "list", "watch"}, r.Verb)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		writes = append(writes, r.String())
	}
	return writes
}
