package app

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// withRollout returns a change of the field rollout of an App.
func withRollout(want v1alpha1.AppRollout) func(*v1alpha1.App) {
	return func(app *v1alpha1.App) { app.Spec.Rollout = &want }
}

func TestRolloutSetsFieldsOfDeployment(t *testing.T) {
	surge := ptr.To(intstr.FromInt32(2))
	f := readyFixture(t)
	before := f.deployment().Spec
	for _, c := range []struct {
		what string
		set  v1alpha1.AppRollout
		want func(*appsv1.DeploymentSpec)
	}{
		{"maxSurge", v1alpha1.AppRollout{MaxSurge: surge}, func(d *appsv1.DeploymentSpec) {
			d.Strategy.RollingUpdate.MaxSurge = surge
		}},
		{"maxUnavailable", v1alpha1.AppRollout{MaxUnavailable: surge}, func(d *appsv1.DeploymentSpec) {
			d.Strategy.RollingUpdate.MaxUnavailable = surge
		}},
		{"Recreate", v1alpha1.AppRollout{Strategy: appsv1.RecreateDeploymentStrategyType}, func(d *appsv1.DeploymentSpec) {
			d.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		}},
		{"maxSurge 0", v1alpha1.AppRollout{MaxSurge: ptr.To(intstr.FromString("0%"))}, func(d *appsv1.DeploymentSpec) {
			d.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{
				MaxSurge: ptr.To(intstr.FromString("0%")), MaxUnavailable: ptr.To(intstr.FromInt32(1)),
			}
		}},
		{"seconds and a history", v1alpha1.AppRollout{
			MinReadySeconds: ptr.To[int32](0), ProgressDeadlineSeconds: ptr.To[int32](60),
			RevisionHistoryLimit: ptr.To[int32](3),
		}, func(d *appsv1.DeploymentSpec) {
			d.MinReadySeconds, d.ProgressDeadlineSeconds = 0, ptr.To[int32](60)
			d.RevisionHistoryLimit = ptr.To[int32](3)
		}},
		{"no field of rollout", v1alpha1.AppRollout{}, func(*appsv1.DeploymentSpec) {}},
	} {
		f.Change(withRollout(c.set))
		controllertest.ErrorContains(t, "", f.Reconcile().Err)
		want := before.DeepCopy()
		c.want(want)
		controllertest.Equal(t, "Deployment with "+c.what, *want, f.deployment().Spec)
	}
}

func TestShutdownSetsDelayAndGracePeriod(t *testing.T) {
	f := readyFixture(t)
	before := f.deployment().Spec.Template
	for _, c := range []struct {
		what         string
		set          *v1alpha1.AppShutdown
		delay, grace int64
	}{
		{"a delay", &v1alpha1.AppShutdown{DelaySeconds: ptr.To[int64](20)}, 20, 50},
		{"a grace period", &v1alpha1.AppShutdown{GracePeriodSeconds: ptr.To[int64](60)}, 5, 65},
		{"no delay", &v1alpha1.AppShutdown{DelaySeconds: ptr.To[int64](0)}, 0, 30},
		{"no field of shutdown", &v1alpha1.AppShutdown{}, 5, 35},
		{"no shutdown", nil, 5, 35},
	} {
		f.Change(func(app *v1alpha1.App) { app.Spec.Shutdown = c.set })
		controllertest.ErrorContains(t, "", f.Reconcile().Err)
		pod := f.deployment().Spec.Template.Spec
		controllertest.Equal(t, "grace period with "+c.what, ptr.To(c.grace), pod.TerminationGracePeriodSeconds)
		want := &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: c.delay}}}
		if c.delay == 0 {
			want = nil
		}
		controllertest.Equal(t, "lifecycle with "+c.what, want, pod.Containers[0].Lifecycle)
	}
	controllertest.Equal(t, "template after shutdown is removed", before, f.deployment().Spec.Template)
}
