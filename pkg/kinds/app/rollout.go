package app

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

const (
	// unprobedSeconds is the default of spec.rollout.minReadySeconds for an App without a readiness probe: a Pod is then
	// ready as soon as its container starts, even if the container is about to crash.
	unprobedSeconds = 5
	// shutdownDelaySeconds is the default of spec.shutdown.delaySeconds for an App with a Service.
	shutdownDelaySeconds = 5
	// shutdownSeconds is the default of spec.shutdown.gracePeriodSeconds.
	shutdownSeconds = 30
)

// setRollout sets the fields of a Deployment that say how new Pods replace previous Pods. By default, each previous Pod
// stays until a new Pod is available, unless the Pods have a volume that only one node can mount. maxSurge has the
// default of the API server. Kubernetes rounds it up, so that a rollout can always create a Pod.
func setRollout(app *v1alpha1.App, spec *appsv1.DeploymentSpec) {
	want := ptr.Deref(app.Spec.Rollout, v1alpha1.AppRollout{})
	spec.Strategy.Type = cmp.Or(want.Strategy, appsv1.RollingUpdateDeploymentStrategyType)
	if isExclusive(app) && want.Strategy == "" {
		spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	}
	if spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		surge, unavailable := cmp.Or(want.MaxSurge, ptr.To(intstr.FromString("25%"))), intstr.FromInt32(0)
		if s := surge.String(); s == "0" || s == "0%" { // the API server rejects 0 for both
			unavailable = intstr.FromInt32(1)
		}
		spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{
			MaxUnavailable: cmp.Or(want.MaxUnavailable, &unavailable), MaxSurge: surge,
		}
	}
	if probesOf(app).Readiness == nil {
		spec.MinReadySeconds = unprobedSeconds
	}
	spec.MinReadySeconds = ptr.Deref(want.MinReadySeconds, spec.MinReadySeconds)
	spec.ProgressDeadlineSeconds, spec.RevisionHistoryLimit = want.ProgressDeadlineSeconds, want.RevisionHistoryLimit
}

// shutdownOf returns how long the container of a Pod that is being deleted serves requests before it gets the stop
// signal, and how long it then has to end, in seconds.
func shutdownOf(app *v1alpha1.App) (delay, grace int64) {
	if hasService(app) {
		delay = shutdownDelaySeconds
	}
	want := ptr.Deref(app.Spec.Shutdown, v1alpha1.AppShutdown{})
	return ptr.Deref(want.DelaySeconds, delay), ptr.Deref(want.GracePeriodSeconds, shutdownSeconds)
}
