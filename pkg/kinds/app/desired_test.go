package app

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

func TestDisruptionBudgetLetsPodsThatAreNotReadyBeEvicted(t *testing.T) {
	f := readyFixture(t, func(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](2) })
	budget := kindtest.Get[*policyv1.PodDisruptionBudget](f.Cluster, "default", "web")
	policy := budget.Spec.UnhealthyPodEvictionPolicy
	controllertest.Equal(t, "policy for Pods that are not ready", ptr.To(policyv1.AlwaysAllow), policy)
}

func TestPodsWithoutReadinessProbeCountAfterSomeSeconds(t *testing.T) {
	withProbe := func(app *v1alpha1.App) { app.Spec.Probe = &v1alpha1.AppProbe{Path: "/"} }
	withoutProbe := func(app *v1alpha1.App) { app.Spec.Probe = nil }
	f := readyFixture(t)
	for _, step := range []struct {
		what    string
		change  func(*v1alpha1.App)
		seconds int32
	}{
		{"App without a probe", withoutProbe, 5},
		{"App that gets a probe", withProbe, 0},
		{"App that loses its probe", withoutProbe, 5},
	} {
		f.Change(step.change)
		controllertest.ErrorContains(t, "", f.Reconcile().Err)
		controllertest.Equal(t, "minReadySeconds of an "+step.what, step.seconds, f.deployment().Spec.MinReadySeconds)
	}
}

func TestPullPolicyFollowsImage(t *testing.T) {
	f := readyFixture(t)
	policy := func() corev1.PullPolicy { return f.deployment().Spec.Template.Spec.Containers[0].ImagePullPolicy }
	controllertest.Equal(t, "policy for web:1", corev1.PullIfNotPresent, policy())
	f.Change(func(app *v1alpha1.App) { app.Spec.Image = "web:latest" })
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "policy for web:latest", corev1.PullAlways, policy())

	app := example(func(app *v1alpha1.App) { app.Spec.BeforeRollout = &v1alpha1.AppBeforeRollout{Image: "tool:latest"} })
	pod := runPodOf(app, runID{})
	controllertest.Equal(t, "policy for the image of beforeRollout", corev1.PullAlways,
		pod.Spec.Containers[0].ImagePullPolicy)
}

func TestRolloutLosesNoRequest(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.App){
		"an App with one Pod":       func(*v1alpha1.App) {},
		"an App with many Pods":     func(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](40) },
		"an App without Pods":       func(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](0) },
		"an App with an autoscaler": withAllChildren,
	} {
		t.Run(name, func(t *testing.T) {
			spec := readyFixture(t, change).deployment().Spec
			rolling := spec.Strategy.RollingUpdate
			controllertest.Equal(t, "strategy", appsv1.RollingUpdateDeploymentStrategyType, spec.Strategy.Type)
			controllertest.Equal(t, "Pods that may be unavailable", ptr.To(intstr.FromInt32(0)), rolling.MaxUnavailable)
			surge, err := intstr.GetScaledValueFromIntOrPercent(rolling.MaxSurge, max(1, int(*spec.Replicas)), true)
			if err != nil || surge < 1 {
				t.Errorf("a rollout may create %d Pods beyond the number of replicas: %v", surge, err)
			}
			pod := spec.Template.Spec
			controllertest.Equal(t, "grace period", ptr.To[int64](35), pod.TerminationGracePeriodSeconds)
			controllertest.Equal(t, "lifecycle", &corev1.Lifecycle{
				PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}},
			}, pod.Containers[0].Lifecycle)
		})
	}
}
