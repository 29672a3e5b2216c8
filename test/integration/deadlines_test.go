//go:build integration

package integration

import (
	"context"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/framework"
)

// patch merges JSON into the spec of an At.
func patch(t *testing.T, namespace, name, spec string) {
	t.Helper()
	_, err := shared.Windlass.CnatV1().Ats(namespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"spec":`+spec+`}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("changing At %s: %v", name, err)
	}
}

// podGone waits until a Pod no longer exists.
func podGone(t *testing.T, namespace, name string) {
	t.Helper()
	framework.Eventually(t, "Pod "+name+" to be deleted", func(ctx context.Context) (bool, error) {
		_, err := shared.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// startedPod waits until a Pod exists whose phase is not Pending, and returns the Pod.
func startedPod(t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	framework.Eventually(t, "Pod "+name+" to start", func(ctx context.Context) (_ bool, err error) {
		pod, err = shared.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && pod.Status.Phase != corev1.PodPending, err
	})
	return pod
}

// watchPods watches the Pods of a namespace. It returns a function that waits until the given number of different Pods
// have started. Reads could miss a Pod that exists briefly on a busy machine.
func watchPods(t *testing.T, namespace string) (waitForStarted func(number int)) {
	t.Helper()
	pods, err := shared.Kube.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watching Pods: %v", err)
	}
	return func(number int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), framework.Patience)
		defer cancel()
		started := sets.New[types.UID]()
		if _, err := watchtools.UntilWithoutRetry(ctx, pods, func(event watch.Event) (bool, error) {
			if pod, ok := event.Object.(*corev1.Pod); ok && pod.Status.Phase != corev1.PodPending {
				started.Insert(pod.UID)
			}
			return started.Len() == number, nil
		}); err != nil {
			t.Fatalf("waiting for %d Pods to start, of which %d have started: %v", number, started.Len(), err)
		}
	}
}

func TestAtFollowsEditedSchedule(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.Create(t, namespace, "earlier", "echo Hello", func(at *v1.At) { at.Spec.Schedule = "2099-01-01T00:00:00Z" })
	at := shared.InPhase(t, namespace, "earlier", v1.AtPending)
	if got := at.Status.ScheduledTime.UTC().Year(); got != 2099 {
		t.Errorf("scheduledTime is in %d, want 2099", got)
	}
	patch(t, namespace, "earlier", `{"schedule":"2020-01-01T01:00:00+01:00"}`)
	shared.InPhase(t, namespace, "earlier", v1.AtDone)

	shared.Create(t, namespace, "later", "echo Hello", func(at *v1.At) { at.Spec.Schedule = framework.Soon() })
	patch(t, namespace, "later", `{"schedule":"2099-01-01T00:00:00Z"}`)
	shared.Create(t, namespace, "marker", "echo Hello", func(at *v1.At) {
		at.Spec.Schedule = time.Now().Add(10 * time.Second).UTC().Format(time.RFC3339)
	})
	shared.InPhase(t, namespace, "marker", v1.AtDone) // the first schedule has passed when the At "marker" is Done
	shared.InPhase(t, namespace, "later", v1.AtPending)
}

func TestSuspendedAtWaitsUntilResumed(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	yes := true
	shared.Create(t, namespace, "held", "echo Hello", func(at *v1.At) { at.Spec.Suspend = &yes })
	at := shared.InPhase(t, namespace, "held", v1.AtPending)
	if ready := meta.FindStatusCondition(at.Status.Conditions, "Ready"); ready == nil || ready.Reason != "Suspended" {
		t.Errorf("Ready is %v, want the reason Suspended", ready)
	}
	patch(t, namespace, "held", `{"suspend":false}`)
	shared.InPhase(t, namespace, "held", v1.AtDone)
}

func TestAtFailsAfterStartingDeadline(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	limit := int64(60)
	shared.Create(t, namespace, "missed", "echo Hello", func(at *v1.At) { at.Spec.StartingDeadlineSeconds = &limit })
	at := shared.InPhase(t, namespace, "missed", v1.AtDone)
	if got := framework.Reason(at, v1.AtFailed); got != "DeadlineExceeded" {
		t.Errorf("the reason of condition Failed is %q, want DeadlineExceeded", got)
	}
	podGone(t, namespace, "missed-pod")
}

func TestAtFailsAfterActiveDeadlineAndKeepsItsPod(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	limit := int64(2)
	shared.Create(t, namespace, "slow", "sleep infinity", func(at *v1.At) { at.Spec.ActiveDeadlineSeconds = &limit })
	at := shared.InPhase(t, namespace, "slow", v1.AtDone)
	if got := framework.Reason(at, v1.AtFailed); got != "DeadlineExceeded" {
		t.Errorf("the reason of condition Failed is %q, want DeadlineExceeded", got)
	}
	pod, err := shared.Kube.CoreV1().Pods(namespace).Get(t.Context(), "slow-pod", metav1.GetOptions{})
	if err != nil || pod.Status.Phase != corev1.PodFailed || pod.DeletionTimestamp != nil {
		t.Errorf("the Pod is %+v, want a Pod that has failed: %v", pod, err)
	}
}

func TestAtRetriesFailedCommandUpToBackoffLimit(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	once := int32(1)
	waitForStarted := watchPods(t, namespace)
	shared.Create(t, namespace, "stubborn", "exit 3", func(at *v1.At) { at.Spec.BackoffLimit = &once })
	waitForStarted(2)
	at := shared.InPhase(t, namespace, "stubborn", v1.AtDone)
	if at.Status.Failed != 2 || framework.Reason(at, v1.AtFailed) != "BackoffLimitExceeded" {
		t.Errorf("%d attempts failed with reason %q, want 2 with BackoffLimitExceeded", at.Status.Failed,
			framework.Reason(at, v1.AtFailed))
	}
}

func TestFinishedAtIsDeletedAfterTTL(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	ttl := int32(1)
	waitForStarted := watchPods(t, namespace)
	shared.Create(t, namespace, "brief", "echo Hello", func(at *v1.At) { at.Spec.TTLSecondsAfterFinished = &ttl })
	waitForStarted(1)
	framework.Eventually(t, "the At to be deleted", func(ctx context.Context) (bool, error) {
		_, err := shared.Windlass.CnatV1().Ats(namespace).Get(ctx, "brief", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	podGone(t, namespace, "brief-pod")
}

func TestPodIsDeletedWithItsAt(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	for name, c := range map[string]struct {
		schedule string
		line     string
		phase    v1.AtPhase
	}{
		"pending": {"2099-01-01T00:00:00Z", "echo Hello", v1.AtPending},
		"running": {"2020-01-01T00:00:00Z", "sleep infinity", v1.AtRunning},
		"done":    {"2020-01-01T00:00:00Z", "echo Hello", v1.AtDone},
	} {
		shared.Create(t, namespace, name, c.line, func(at *v1.At) { at.Spec.Schedule = c.schedule })
		shared.InPhase(t, namespace, name, c.phase)
		if c.phase == v1.AtRunning {
			startedPod(t, namespace, name+"-pod")
		}
		if err := shared.Windlass.CnatV1().Ats(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("deleting the At: %v", err)
		}
		podGone(t, namespace, name+"-pod")
	}
}

func TestAtKeepsForeignPodWithItsPodName(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	pods := shared.Kube.CoreV1().Pods(namespace)
	if _, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "taken-pod"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "theirs", Image: "theirs"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating the foreign Pod: %v", err)
	}
	theirs := startedPod(t, namespace, "taken-pod")
	shared.Create(t, namespace, "taken", "echo Hello", nil)
	framework.Eventually(t, "condition Stalled with reason NameConflict", func(ctx context.Context) (bool, error) {
		at, err := shared.Windlass.CnatV1().Ats(namespace).Get(ctx, "taken", metav1.GetOptions{})
		stalled := meta.FindStatusCondition(at.Status.Conditions, "Stalled")
		return stalled != nil && stalled.Reason == "NameConflict", err
	})
	still, err := pods.Get(t.Context(), "taken-pod", metav1.GetOptions{})
	if err != nil || still.UID != theirs.UID || still.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("the foreign Pod was changed: %v, %v", still, err)
	}
	if err := pods.Delete(t.Context(), "taken-pod", metav1.DeleteOptions{}); err != nil {
		t.Fatalf("deleting the foreign Pod: %v", err)
	}
	shared.InPhase(t, namespace, "taken", v1.AtDone) // although the At has not changed
}

func TestAtRestoresPodLabels(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.Create(t, namespace, "bare", "sleep infinity", nil)
	first := startedPod(t, namespace, "bare-pod")
	if _, err := shared.Kube.CoreV1().Pods(namespace).Patch(t.Context(), first.Name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatalf("removing the labels: %v", err)
	}
	framework.Eventually(t, "the Pod to have its labels again", func(ctx context.Context) (bool, error) {
		pod, err := shared.Kube.CoreV1().Pods(namespace).Get(ctx, first.Name, metav1.GetOptions{})
		return err == nil && pod.UID == first.UID && maps.Equal(pod.Labels, first.Labels), err
	})
}
