//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/framework"
)

// replicas returns the operator's ready Pods, without Pods that are being deleted.
func replicas(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := here.Kube.CoreV1().Pods(operatorNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=windlass",
	})
	if err != nil {
		return nil, err
	}
	var ready []corev1.Pod
	for _, pod := range pods.Items {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				ready = append(ready, pod)
			}
		}
	}
	return ready, nil
}

// leader returns the name of the Pod that holds the operator's Lease, or "".
func leader(ctx context.Context) string {
	lease, err := here.Kube.CoordinationV1().Leases(operatorNamespace).Get(ctx, "windlass-controller", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return pod
}

func TestWebhookConvertsV1alpha1ManifestInCluster(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	_, err := kubectl(t.Context(), fmt.Sprintf(`
apiVersion: cnat.programming-kubernetes.info/v1alpha1
kind: At
metadata: {name: example-at}
spec:
  schedule: %q
  command: "echo Hello"
`, framework.Soon()), "apply", "-n", namespace, "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	here.InPhase(t, namespace, "example-at", v1.AtDone)
	phase, err := kubectl(t.Context(), "", "get", "ats.v1alpha1.cnat.programming-kubernetes.info", "example-at", "-n",
		namespace, "-o", "jsonpath={.status.phase}")
	if err != nil || phase != "DONE" {
		t.Errorf("the phase in v1alpha1 is %q, want DONE: %v", phase, err)
	}
	if got := logs(t, namespace, "example-at"); got != "Hello\n" {
		t.Errorf("the command printed %q, want Hello", got)
	}
}

// TestOperatorRolloutInterruptsNothing does not run in parallel: it replaces the operator that the other
// tests use. Ats run, and reads as v1alpha1 succeed, while both replicas are replaced.
func TestOperatorRolloutInterruptsNothing(t *testing.T) {
	namespace := here.NewNamespace(t)
	here.Create(t, namespace, "read", "echo Hello", nil)
	reading, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	var reads, failures atomic.Int64
	for range 4 {
		readers.Go(func() {
			for reading.Err() == nil {
				if _, err := here.Windlass.CnatV1alpha1().Ats(namespace).Get(t.Context(), "read", metav1.GetOptions{}); err != nil {
					failures.Add(1)
					t.Errorf("reading an At as v1alpha1: %v", err)
				}
				reads.Add(1)
			}
		})
	}
	defer readers.Wait()
	defer stop()

	pods, err := replicas(t.Context())
	if err != nil || len(pods) != 2 {
		t.Fatalf("got %d ready replicas, want 2: %v", len(pods), err)
	}
	first := leader(t.Context())
	if _, err := kubectl(t.Context(), "", "delete", "pod", "-n", operatorNamespace, first, "--wait=false"); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		here.Create(t, namespace, fmt.Sprintf("during-%d", i), "echo Hello", func(at *v1.At) {
			at.Spec.Schedule = framework.Soon()
		})
	}
	framework.Eventually(t, "the other replica to lead", func(ctx context.Context) (bool, error) {
		now := leader(ctx)
		return now != "" && now != first, nil
	})
	if _, err := kubectl(t.Context(), "", "rollout", "restart", "-n", operatorNamespace,
		"deployment/windlass-controller"); err != nil {
		t.Fatal(err)
	}
	if _, err := kubectl(t.Context(), "", "rollout", "status", "-n", operatorNamespace,
		"deployment/windlass-controller", "--timeout=180s"); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the previous replicas to be deleted", func(ctx context.Context) (bool, error) {
		all, err := here.Kube.CoreV1().Pods(operatorNamespace).List(ctx, metav1.ListOptions{
			LabelSelector: "app.kubernetes.io/name=windlass",
		})
		return err == nil && len(all.Items) == 2, err
	})
	for i := range 10 {
		name := fmt.Sprintf("during-%d", i)
		here.InPhase(t, namespace, name, v1.AtDone)
		if got := logs(t, namespace, name); got != "Hello\n" {
			t.Errorf("At %s printed %q, want Hello", name, got)
		}
	}
	stop()
	readers.Wait()
	t.Logf("%d reads as v1alpha1 while both replicas were replaced, %d failed", reads.Load(), failures.Load())
}
