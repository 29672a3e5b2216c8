//go:build integration

package integration

import (
	"context"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestEvictionOfPodThatIsNotReadySucceeds evicts the Pods of an App as `kubectl drain` does. No Pod of the App is
// ready, so the PodDisruptionBudget of the App allows no disruption.
func TestEvictionOfPodThatIsNotReadySucceeds(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	spec := smallest()
	spec.Replicas = ptr.To[int32](2)
	shared.CreateApp(t, namespace, "shop", spec)
	shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
	client := shared.Kube.CoreV1().Pods(namespace)
	pods, err := client.List(t.Context(), metav1.ListOptions{LabelSelector: "windlass.dev/app=shop"})
	if err != nil || len(pods.Items) != 2 {
		t.Fatalf("the App has %d Pods: %v", len(pods.Items), err)
	}
	for _, pod := range pods.Items {
		crash(t, namespace, pod.Name)
	}
	framework.Eventually(t, "the PodDisruptionBudget to allow no disruption", func(ctx context.Context) (bool, error) {
		budget, err := shared.Kube.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, "shop", metav1.GetOptions{})
		return err == nil && budget.Status.CurrentHealthy == 0 && budget.Status.DisruptionsAllowed == 0, err
	})
	for _, pod := range pods.Items {
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod.Name}}
		if err := shared.Kube.PolicyV1().Evictions(namespace).Evict(t.Context(), eviction); err != nil {
			t.Errorf("evicting a Pod that is not ready: %v", err)
		}
	}
	framework.Eventually(t, "the evicted Pods to be deleted", func(ctx context.Context) (bool, error) {
		for _, pod := range pods.Items {
			if _, err := client.Get(ctx, pod.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return false, err
			}
		}
		return true, nil
	})
}

// crash gives a Pod the status of a Pod whose container is in CrashLoopBackOff.
func crash(t *testing.T, namespace, name string) {
	t.Helper()
	patch := `{"status":{"conditions":[{"type":"Ready","status":"False"},{"type":"ContainersReady","status":"False"}],` +
		`"containerStatuses":[{"name":"app","image":"shop:1","imageID":"","ready":false,"restartCount":3,` +
		`"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":3,"reason":"Error"}}}]}}`
	_, err := shared.Kube.CoreV1().Pods(namespace).Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatalf("changing the status of Pod %s: %v", name, err)
	}
}
