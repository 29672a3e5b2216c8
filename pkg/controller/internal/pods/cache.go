package pods

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
)

// ownDomains are those of the annotations that kinds put on their Pods: the groups of
// Windlass' APIs.
var ownDomains = []string{"windlass.dev/", "cnat.programming-kubernetes.info/"}

// Watched is the informer of Pods that all kinds share, with a cache of what Trim
// leaves. It is asked for before the informers are started.
func Watched(factory informers.SharedInformerFactory) (coreinformers.PodInformer, error) {
	watched := factory.Core().V1().Pods()
	if err := watched.Informer().SetTransform(Trim); err != nil {
		return nil, fmt.Errorf("trimming the cache of Pods: %w", err)
	}
	return watched, nil
}

// Trim keeps of a Pod what kinds read: whose it is, how its containers fare and since
// when, and whether it is placed, ready, or about to be taken away. It is a
// cache.TransformFunc.
func Trim(obj any) (any, error) {
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
	for name, value := range pod.Annotations {
		if slices.ContainsFunc(ownDomains, func(domain string) bool { return strings.HasPrefix(name, domain) }) {
			metav1.SetMetaDataAnnotation(&trimmed.ObjectMeta, name, value)
		}
	}
	for _, condition := range pod.Status.Conditions {
		switch condition.Type {
		case corev1.PodReady, corev1.PodScheduled, corev1.DisruptionTarget:
			trimmed.Status.Conditions = append(trimmed.Status.Conditions, condition)
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		trimmed.Status.ContainerStatuses = append(trimmed.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: status.Name, State: status.State, LastTerminationState: status.LastTerminationState,
		})
	}
	return trimmed, nil
}
