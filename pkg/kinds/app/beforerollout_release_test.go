package app

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// deleteRunByUser deletes the Pod as a user does. A Pod with the finalizer stays.
func (f fixture) deleteRunByUser() {
	f.T.Helper()
	uid := f.runPod().UID
	err := f.Kube.CoreV1().Pods("default").Delete(f.T.Context(), runName, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid},
	})
	if err != nil {
		f.T.Fatal(err)
	}
}

// runningFixture returns an App that was rolled out with web:1, and whose command for web:2 runs.
func runningFixture(t *testing.T) fixture {
	t.Helper()
	f := rolledOutFixture(t)
	f.Change(image("web:2"))
	f.reconcile()
	return f
}

func TestDeletedPodOfBeforeRolloutFailsTheRun(t *testing.T) {
	f := runningFixture(t)
	f.deleteRunByUser()
	f.Restart()
	f.reconcile()
	if !strings.HasPrefix(f.ready(), "False BeforeRolloutFailed: beforeRollout failed: The Pod was deleted before "+
		"its command ended. ") {
		t.Errorf("the condition is %s", f.ready())
	}
	controllertest.Equal(t, "Pod", (*corev1.Pod)(nil), f.runPod())
	controllertest.Equal(t, "image", "web:1", f.imageOf())
}

func TestBeforeRolloutIsReleasedWhileTheAppWaits(t *testing.T) {
	for name, running := range map[string]func(*testing.T) fixture{
		"an App with a Deployment": runningFixture,
		"an App without a Deployment": func(t *testing.T) fixture {
			f := newFixture(t, example(withMigration))
			f.reconcile()
			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := running(t)
			f.Change(readsMissingSecret)
			f.endRun(1, "")
			f.reconcile()
			run := f.Object().Status.BeforeRolloutRuns[0]
			controllertest.Equal(t, "phase of the run", v1alpha1.BeforeRolloutFailed, run.Phase)
			controllertest.Equal(t, "finalizers", 0, len(f.runPod().Finalizers))
			if !strings.HasPrefix(f.ready(), "False DependencyMissing: ") {
				t.Errorf("the condition is %s", f.ready())
			}
		})
	}
}

// readsMissingSecret makes an App wait for a Secret.
func readsMissingSecret(app *v1alpha1.App) {
	missing := &corev1.SecretEnvSource{LocalObjectReference: namedConfig("missing")}
	app.Spec.EnvFrom = []corev1.EnvFromSource{{SecretRef: missing}}
}

func TestPodThatHasNotRunIsReleasedWhileTheAppWaits(t *testing.T) {
	f := rolledOutFixture(t)
	pod := runPodOf(f.Object(), runID{"t", "c"})
	pod.UID, pod.ResourceVersion = "gated", "3"
	pod.DeletionTimestamp = &metav1.Time{Time: f.Clock.Now()}
	f.Remove(f.runPod())
	f.Store(pod)
	f.Change(readsMissingSecret)
	f.reconcile()
	controllertest.Equal(t, "Pod", (*corev1.Pod)(nil), f.runPod())
}

func TestPodOfDeletedAppIsReleased(t *testing.T) {
	f := runningFixture(t)
	f.deleteRunByUser()
	f.Remove(f.Object())
	r := f.Reconcile()
	controllertest.Equal(t, "reads", []string{"get apps default/web"}, r.Reads)
	controllertest.Equal(t, "writes", []string{releaseRun}, r.Writes)
	controllertest.Equal(t, "Pod", (*corev1.Pod)(nil), f.runPod())
}

func TestPodOfEarlierAppIsReleased(t *testing.T) {
	earlier := example(withMigration, func(app *v1alpha1.App) { app.UID = "earlier" })
	pod := runPodOf(earlier, runID{"t", "c"})
	pod.UID, pod.ResourceVersion = "pod", "3"
	f := newFixture(t, example(), pod)
	f.reconcile()
	controllertest.Equal(t, "finalizers", 0, len(f.runPod().Finalizers))
}

func TestBeforeRolloutRestoresFinalizer(t *testing.T) {
	f := runningFixture(t)
	pod := f.runPod()
	pod.Finalizers = nil
	f.Store(pod)
	controllertest.Equal(t, "writes", []string{releaseRun}, f.reconcile())
	controllertest.Equal(t, "finalizers", 1, len(f.runPod().Finalizers))
}

// hiddenFixture returns an App that was rolled out with web:1. Its command for web:2 runs in a Pod whose labels a
// policy changes.
func hiddenFixture(t *testing.T) fixture {
	t.Helper()
	f := rolledOutFixture(t)
	f.RelabelPods()
	f.Change(image("web:2"))
	f.reconcile()
	return f
}

func TestPodOfBeforeRolloutThatPolicyHidesIsReleased(t *testing.T) {
	f := hiddenFixture(t)
	f.endRun(0, "")
	f.reconcile()
	controllertest.Equal(t, "image", "web:2", f.imageOf())
	controllertest.Equal(t, "finalizers", 0, len(f.runPod().Finalizers))
}
