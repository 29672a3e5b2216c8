package app

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// utilization returns the target for a percentage of the request of a resource.
func utilization(name corev1.ResourceName, percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{Name: name, Target: autoscalingv2.MetricTarget{
			Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent,
		}},
	}
}

// external is a target for a metric that does not come from the Pods.
var external = autoscalingv2.MetricSpec{
	Type: autoscalingv2.ExternalMetricSourceType,
	External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "orders"}, Target: autoscalingv2.MetricTarget{
			Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse("30")),
		},
	},
}

func TestTargetsOfAutoscaler(t *testing.T) {
	for name, c := range map[string]struct {
		want    v1alpha1.AppAutoscaling
		targets []autoscalingv2.MetricSpec
	}{
		"without a target, 80 percent of the CPU": {targets: []autoscalingv2.MetricSpec{utilization("cpu", 80)}},
		"a target for CPU": {
			v1alpha1.AppAutoscaling{TargetCPUUtilizationPercentage: ptr.To[int32](70)},
			[]autoscalingv2.MetricSpec{utilization("cpu", 70)},
		},
		"a target for memory adds no target for CPU": {
			v1alpha1.AppAutoscaling{TargetMemoryUtilizationPercentage: ptr.To[int32](90)},
			[]autoscalingv2.MetricSpec{utilization("memory", 90)},
		},
		"metrics add no target for CPU": {
			v1alpha1.AppAutoscaling{Metrics: []autoscalingv2.MetricSpec{external}}, []autoscalingv2.MetricSpec{external},
		},
		"all targets": {
			v1alpha1.AppAutoscaling{
				TargetCPUUtilizationPercentage: ptr.To[int32](70), TargetMemoryUtilizationPercentage: ptr.To[int32](90),
				Metrics: []autoscalingv2.MetricSpec{external},
			}, []autoscalingv2.MetricSpec{utilization("cpu", 70), utilization("memory", 90), external},
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Equal(t, "targets", c.targets, metricsOf(&c.want))
		})
	}
}

func TestBehaviorOfAutoscalerHasDefaultsOfAPIServer(t *testing.T) {
	controllertest.Equal(t, "behavior of an App without behavior", nil, behaviorOf(&v1alpha1.AppAutoscaling{}))
	rules := &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](60)},
	}
	before := rules.DeepCopy()
	controllertest.Equal(t, "behavior", &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleUp: &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: ptr.To[int32](0), SelectPolicy: ptr.To(autoscalingv2.MaxChangePolicySelect),
			Policies: []autoscalingv2.HPAScalingPolicy{
				{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
				{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
			},
		},
		ScaleDown: &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: ptr.To[int32](60), SelectPolicy: ptr.To(autoscalingv2.MaxChangePolicySelect),
			Policies: []autoscalingv2.HPAScalingPolicy{
				{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
			},
		},
	}, behaviorOf(&v1alpha1.AppAutoscaling{Behavior: rules}))
	controllertest.Equal(t, "the spec, which must not change", before, rules)
}

func TestAppThatScalesToZeroStaysAtZero(t *testing.T) {
	f := newFixture(t, example(func(app *v1alpha1.App) {
		app.Spec.Autoscaling = &v1alpha1.AppAutoscaling{
			MinReplicas: ptr.To[int32](0), MaxReplicas: 3, Metrics: []autoscalingv2.MetricSpec{external},
		}
	}))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "replicas of a new App", 1, *f.deployment().Spec.Replicas)
	f.scale(0)
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "replicas", 0, *f.deployment().Spec.Replicas)
	controllertest.Equal(t, "phase", v1alpha1.AppReady, f.Object().Status.Phase)
	controllertest.Equal(t, "template that never ran", nil, f.Object().Status.LastAvailable)
	f.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](2) })
	f.changeDeployment(func(d *appsv1.Deployment) { // no Pod runs yet
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 2, UpdatedReplicas: 2}
	})
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "phase while the first Pods start", v1alpha1.AppDeploying, f.Object().Status.Phase)
}

// TestAppThatNobodyWakesGetsPods has 0 Pods that somebody else than the autoscaler has set. A HorizontalPodAutoscaler
// does not scale up from there.
func TestAppThatNobodyWakesGetsPods(t *testing.T) {
	scaling := &v1alpha1.AppAutoscaling{
		MinReplicas: ptr.To[int32](0), MaxReplicas: 3, Metrics: []autoscalingv2.MetricSpec{external},
	}
	f := newFixture(t, example(func(app *v1alpha1.App) { app.Spec.Autoscaling = scaling }))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	f.scale(0)
	kindtest.Change(f.Cluster, "default", "web", func(a *autoscalingv2.HorizontalPodAutoscaler) {
		a.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{
			Type: autoscalingv2.ScalingActive, Status: corev1.ConditionFalse, Reason: "ScalingDisabled",
		}}
	})
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "replicas", 1, *f.deployment().Spec.Replicas)

	stopped := newFixture(t, example(func(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](0) }))
	controllertest.ErrorContains(t, "", stopped.Reconcile().Err)
	stopped.Change(func(app *v1alpha1.App) { app.Spec.Autoscaling = scaling })
	controllertest.ErrorContains(t, "", stopped.Reconcile().Err)
	controllertest.Equal(t, "replicas of an App that was stopped", 1, *stopped.deployment().Spec.Replicas)
}
