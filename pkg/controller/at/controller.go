// Package at runs a command at a time: it takes an At from Pending to Running,
// makes its Pod, and tells how the command ended.
package at

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
)

// DefaultImage is the image of an At that names none, unless Options say
// otherwise.
const DefaultImage = "busybox:1.37"

// Options are what an operator may decide for all Ats.
type Options struct {
	// DefaultImage is the image of an At that names none. Empty means the
	// constant of that name.
	DefaultImage string
	// Clock is the clock by which schedules are read. Nil means the real one.
	Clock clock.WithTicker
}

// New returns the controller of At. kubeInformers select the label
// app.kubernetes.io/managed-by=windlass. The informers are started by the caller,
// after New and before the controller runs.
func New(
	kube kubernetes.Interface,
	cnat versioned.Interface,
	kubeInformers informers.SharedInformerFactory,
	cnatInformers externalversions.SharedInformerFactory,
	events controller.EventRecorder,
	opts Options,
) (*controller.Controller, error) {
	if opts.DefaultImage == "" {
		opts.DefaultImage = DefaultImage
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	ats := cnatInformers.Cnat().V1().Ats()
	pods := kubeInformers.Core().V1().Pods()
	if err := pods.Informer().SetTransform(trimPod); err != nil {
		return nil, fmt.Errorf("trimming the cache of Pods: %w", err)
	}
	queue := controller.NewQueue("at", opts.Clock)
	guard := controller.NewGuard()
	pipeline := &controller.Pipeline[*v1.At]{
		Get: func(key controller.Key) (*v1.At, error) {
			return ats.Lister().Ats(key.Namespace).Get(key.Name)
		},
		Client: func(namespace string) controller.Client[*v1.At] { return cnat.CnatV1().Ats(namespace) },
		Store:  ats.Informer().GetStore(),
		Reconciler: &reconciler{
			ats:   cnat.CnatV1(),
			pods:  kube.CoreV1(),
			cache: pods.Lister(),
			created: func(key controller.Key, pod *corev1.Pod) {
				guard.Wrote(key, pods.Informer().GetStore(), pod.ResourceVersion)
			},
			image:  opts.DefaultImage,
			clock:  opts.Clock,
			starts: newStarts(),
		},
		Guard:  guard,
		Events: events,
		Clock:  opts.Clock,
	}
	c := controller.New("at", queue, pipeline.Sync)
	c.Watch(ats.Informer(), controller.Self(queue))
	c.Watch(pods.Informer(), controller.Owner(queue, v1.SchemeGroupVersion.WithKind("At").GroupKind(), meta.RESTScopeNameNamespace))
	return c, nil
}

// trimPod keeps of a cached Pod what this package reads: who controls it, which
// attempt it is, how its container fares, and since when.
func trimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	trimmed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         pod.Namespace,
			Name:              pod.Name,
			UID:               pod.UID,
			ResourceVersion:   pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp,
			DeletionTimestamp: pod.DeletionTimestamp,
			Labels:            pod.Labels,
			OwnerReferences:   pod.OwnerReferences,
		},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, Reason: pod.Status.Reason, Message: pod.Status.Message},
	}
	if attempt, ok := pod.Annotations[attemptAnnotation]; ok {
		trimmed.Annotations = map[string]string{attemptAnnotation: attempt}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady || condition.Type == corev1.DisruptionTarget {
			trimmed.Status.Conditions = append(trimmed.Status.Conditions, condition)
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == containerName {
			trimmed.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: status.Name, State: status.State}}
		}
	}
	return trimmed, nil
}
