package database

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/children"
	"windlass.dev/windlass/pkg/controller/internal/credentials"
)

// childInformers are those of the types that a Database owns. The claim is not among
// them: it has no owner.
func childInformers(in informers.SharedInformerFactory) []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{
		in.Core().V1().Secrets().Informer(),
		in.Core().V1().Services().Informer(),
		in.Apps().V1().StatefulSets().Informer(),
	}
}

// newReconciler returns a reconciler that knows its children.
func newReconciler(kube kubernetes.Interface, in informers.SharedInformerFactory, guard *controller.Guard) *reconciler {
	secrets, services, claims := in.Core().V1().Secrets(), in.Core().V1().Services(), in.Core().V1().PersistentVolumeClaims()
	statefulSets, pods := in.Apps().V1().StatefulSets(), in.Core().V1().Pods()
	return &reconciler{
		secrets: children.Type[*corev1.Secret]{
			Kind: "Secret", Guard: guard, Cache: children.CacheOf[*corev1.Secret](secrets.Informer().GetStore()),
			Client: func(ns string) children.Client[*corev1.Secret] { return kube.CoreV1().Secrets(ns) },
			Keep:   credentials.KeepPassword,
		},
		services: children.Type[*corev1.Service]{
			Kind: "Service", Guard: guard, Cache: children.CacheOf[*corev1.Service](services.Informer().GetStore()),
			Client: func(ns string) children.Client[*corev1.Service] { return kube.CoreV1().Services(ns) },
		},
		claims: children.Type[*corev1.PersistentVolumeClaim]{
			Kind: "PersistentVolumeClaim", Guard: guard, Cache: children.CacheOf[*corev1.PersistentVolumeClaim](claims.Informer().GetStore()),
			Client: func(ns string) children.Client[*corev1.PersistentVolumeClaim] {
				return kube.CoreV1().PersistentVolumeClaims(ns)
			},
			Keep:     keepVolume,
			Yielded:  [][]string{{"spec", "storageClassName"}}, // to the volume that is there
			Outlives: true,
		},
		statefulSets: children.Type[*appsv1.StatefulSet]{
			Kind: "StatefulSet", Guard: guard, Cache: children.CacheOf[*appsv1.StatefulSet](statefulSets.Informer().GetStore()),
			Client: func(ns string) children.Client[*appsv1.StatefulSet] { return kube.AppsV1().StatefulSets(ns) },
		},
		pod: func(ns, name string) (*corev1.Pod, error) { return pods.Lister().Pods(ns).Get(name) },
	}
}
