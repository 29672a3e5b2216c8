package app

import (
	"cmp"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// isAutoscaled reports whether the App has a HorizontalPodAutoscaler.
func isAutoscaled(app *v1alpha1.App) bool { return app.Spec.Autoscaling != nil }

// minReplicas returns the lowest number of Pods that the App can have.
func minReplicas(app *v1alpha1.App) int32 {
	if scaling := app.Spec.Autoscaling; scaling != nil {
		return ptr.Deref(scaling.MinReplicas, 1)
	}
	return ptr.Deref(app.Spec.Replicas, 1)
}

// initialReplicas returns the number of Pods with which an App with an autoscaler begins. It is not 0, so that the App
// has Pods even if the API server rejects the HorizontalPodAutoscaler.
func initialReplicas(app *v1alpha1.App) int32 { return max(minReplicas(app), 1) }

// defaultCPUUtilization is the target of an autoscaler without any other target, in percent.
const defaultCPUUtilization = 80

func desiredAutoscaler(app *v1alpha1.App) *autoscalingv2.HorizontalPodAutoscaler {
	want := app.Spec.Autoscaling
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metaOf(app),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: app.Name},
			MinReplicas:    want.MinReplicas,
			MaxReplicas:    want.MaxReplicas,
			Metrics:        metricsOf(want),
			Behavior:       behaviorOf(want),
		},
	}
}

// metricsOf returns the targets of an autoscaler.
func metricsOf(want *v1alpha1.AppAutoscaling) (targets []autoscalingv2.MetricSpec) {
	cpu, memory := want.TargetCPUUtilizationPercentage, want.TargetMemoryUtilizationPercentage
	if cpu == nil && memory == nil && len(want.Metrics) == 0 {
		cpu = ptr.To[int32](defaultCPUUtilization)
	}
	for _, r := range []struct {
		name    corev1.ResourceName
		percent *int32
	}{{corev1.ResourceCPU, cpu}, {corev1.ResourceMemory, memory}} {
		if r.percent != nil {
			targets = append(targets, autoscalingv2.MetricSpec{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: r.name, Target: autoscalingv2.MetricTarget{
					Type: autoscalingv2.UtilizationMetricType, AverageUtilization: r.percent,
				}},
			})
		}
	}
	return slices.Concat(targets, want.Metrics)
}

// behaviorOf returns the behavior of an autoscaler with the defaults of the API server (k8s.io/kubernetes,
// pkg/apis/autoscaling/v2/defaults.go). If the operator did not set these defaults itself, they would stay after the
// behavior is removed from the spec.
func behaviorOf(want *v1alpha1.AppAutoscaling) *autoscalingv2.HorizontalPodAutoscalerBehavior {
	if want.Behavior == nil {
		return nil
	}
	const period = 15 // seconds
	percent := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: period}
	four := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: period}
	up := withDefaults(want.Behavior.ScaleUp, four, percent)
	up.StabilizationWindowSeconds = cmp.Or(up.StabilizationWindowSeconds, ptr.To[int32](0))
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleUp: up, ScaleDown: withDefaults(want.Behavior.ScaleDown, percent),
	}
}

// withDefaults returns a copy of rules, which may be nil, with the default policies.
func withDefaults(
	rules *autoscalingv2.HPAScalingRules, policies ...autoscalingv2.HPAScalingPolicy,
) *autoscalingv2.HPAScalingRules {
	filled := ptr.Deref(rules, autoscalingv2.HPAScalingRules{})
	filled.SelectPolicy = cmp.Or(filled.SelectPolicy, ptr.To(autoscalingv2.MaxChangePolicySelect))
	if filled.Policies == nil {
		filled.Policies = policies
	}
	return &filled
}
