package app

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/children"
)

// childInformers are those of the types that an App owns.
func childInformers(in informers.SharedInformerFactory) []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{
		in.Core().V1().ConfigMaps().Informer(),
		in.Apps().V1().Deployments().Informer(),
		in.Core().V1().Services().Informer(),
		in.Networking().V1().Ingresses().Informer(),
		in.Autoscaling().V2().HorizontalPodAutoscalers().Informer(),
		in.Policy().V1().PodDisruptionBudgets().Informer(),
	}
}

// newReconciler returns a reconciler that knows its children, and no references yet.
func newReconciler(kube kubernetes.Interface, in informers.SharedInformerFactory, guard *controller.Guard) *reconciler {
	configMaps, deployments, services := in.Core().V1().ConfigMaps(), in.Apps().V1().Deployments(), in.Core().V1().Services()
	ingresses, autoscalers, budgets := in.Networking().V1().Ingresses(), in.Autoscaling().V2().HorizontalPodAutoscalers(), in.Policy().V1().PodDisruptionBudgets()
	return &reconciler{
		digests: newDigests(),
		configMaps: children.Type[*corev1.ConfigMap]{
			Kind: "ConfigMap", Guard: guard, Cache: children.CacheOf[*corev1.ConfigMap](configMaps.Informer().GetStore()),
			Client: func(ns string) children.Client[*corev1.ConfigMap] { return kube.CoreV1().ConfigMaps(ns) },
		},
		deployments: children.Type[*appsv1.Deployment]{
			Kind: "Deployment", Guard: guard, Cache: children.CacheOf[*appsv1.Deployment](deployments.Informer().GetStore()),
			Client:  func(ns string) children.Client[*appsv1.Deployment] { return kube.AppsV1().Deployments(ns) },
			Yielded: [][]string{{"spec", "replicas"}}, // to the autoscaler
		},
		services: children.Type[*corev1.Service]{
			Kind: "Service", Guard: guard, Cache: children.CacheOf[*corev1.Service](services.Informer().GetStore()),
			Client: func(ns string) children.Client[*corev1.Service] { return kube.CoreV1().Services(ns) },
		},
		ingresses: children.Type[*networkingv1.Ingress]{
			Kind: "Ingress", Guard: guard, Cache: children.CacheOf[*networkingv1.Ingress](ingresses.Informer().GetStore()),
			Client: func(ns string) children.Client[*networkingv1.Ingress] { return kube.NetworkingV1().Ingresses(ns) },
			// The API server gives a class to a new Ingress alone: one that lost its own would
			// be served by nobody.
			Yielded: [][]string{{"spec", "ingressClassName"}},
		},
		autoscalers: children.Type[*autoscalingv2.HorizontalPodAutoscaler]{
			Kind: "HorizontalPodAutoscaler", Guard: guard, Cache: children.CacheOf[*autoscalingv2.HorizontalPodAutoscaler](autoscalers.Informer().GetStore()),
			Client: func(ns string) children.Client[*autoscalingv2.HorizontalPodAutoscaler] {
				return kube.AutoscalingV2().HorizontalPodAutoscalers(ns)
			},
		},
		budgets: children.Type[*policyv1.PodDisruptionBudget]{
			Kind: "PodDisruptionBudget", Guard: guard, Cache: children.CacheOf[*policyv1.PodDisruptionBudget](budgets.Informer().GetStore()),
			Client: func(ns string) children.Client[*policyv1.PodDisruptionBudget] {
				return kube.PolicyV1().PodDisruptionBudgets(ns)
			},
		},
	}
}
