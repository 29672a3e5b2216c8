package cluster

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller/children"
)

// The built-in types that kinds own. A type is watched only if its method is called before Start.

// ConfigMaps returns the Resource for ConfigMaps.
func (c Cluster) ConfigMaps() children.Resource[*corev1.ConfigMap] {
	return resource(c, "ConfigMap", c.Owned.Core().V1().ConfigMaps(),
		func(ns string) children.Client[*corev1.ConfigMap] { return c.Kube.CoreV1().ConfigMaps(ns) })
}

// Secrets returns the Resource for Secrets.
func (c Cluster) Secrets() children.Resource[*corev1.Secret] {
	return resource(c, "Secret", c.Owned.Core().V1().Secrets(), func(ns string) children.Client[*corev1.Secret] {
		return c.Kube.CoreV1().Secrets(ns)
	})
}

// Services returns the Resource for Services.
func (c Cluster) Services() children.Resource[*corev1.Service] {
	return resource(c, "Service", c.Owned.Core().V1().Services(), func(ns string) children.Client[*corev1.Service] {
		return c.Kube.CoreV1().Services(ns)
	})
}

// PersistentVolumeClaims returns the Resource for PersistentVolumeClaims.
func (c Cluster) PersistentVolumeClaims() children.Resource[*corev1.PersistentVolumeClaim] {
	return resource(c, "PersistentVolumeClaim", c.Owned.Core().V1().PersistentVolumeClaims(),
		func(ns string) children.Client[*corev1.PersistentVolumeClaim] {
			return c.Kube.CoreV1().PersistentVolumeClaims(ns)
		})
}

// Deployments returns the Resource for Deployments.
func (c Cluster) Deployments() children.Resource[*appsv1.Deployment] {
	return resource(c, "Deployment", c.Owned.Apps().V1().Deployments(),
		func(ns string) children.Client[*appsv1.Deployment] { return c.Kube.AppsV1().Deployments(ns) })
}

// StatefulSets returns the Resource for StatefulSets.
func (c Cluster) StatefulSets() children.Resource[*appsv1.StatefulSet] {
	return resource(c, "StatefulSet", c.Owned.Apps().V1().StatefulSets(),
		func(ns string) children.Client[*appsv1.StatefulSet] { return c.Kube.AppsV1().StatefulSets(ns) })
}

// Ingresses returns the Resource for Ingresses.
func (c Cluster) Ingresses() children.Resource[*networkingv1.Ingress] {
	return resource(c, "Ingress", c.Owned.Networking().V1().Ingresses(),
		func(ns string) children.Client[*networkingv1.Ingress] { return c.Kube.NetworkingV1().Ingresses(ns) })
}

// HorizontalPodAutoscalers returns the Resource for HorizontalPodAutoscalers.
func (c Cluster) HorizontalPodAutoscalers() children.Resource[*autoscalingv2.HorizontalPodAutoscaler] {
	return resource(c, "HorizontalPodAutoscaler", c.Owned.Autoscaling().V2().HorizontalPodAutoscalers(),
		func(ns string) children.Client[*autoscalingv2.HorizontalPodAutoscaler] {
			return c.Kube.AutoscalingV2().HorizontalPodAutoscalers(ns)
		})
}

// PodDisruptionBudgets returns the Resource for PodDisruptionBudgets.
func (c Cluster) PodDisruptionBudgets() children.Resource[*policyv1.PodDisruptionBudget] {
	return resource(c, "PodDisruptionBudget", c.Owned.Policy().V1().PodDisruptionBudgets(),
		func(ns string) children.Client[*policyv1.PodDisruptionBudget] {
			return c.Kube.PolicyV1().PodDisruptionBudgets(ns)
		})
}

func resource[C children.Object](c Cluster, kind string, in interface {
	Informer() cache.SharedIndexInformer
}, client func(namespace string) children.Client[C],
) children.Resource[C] {
	return children.Resource[C]{Kind: kind, ManagedBy: c.ManagedBy, Informer: in.Informer(), Client: client}
}
