package faults

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// runStatefulSet takes a step of the StatefulSet controller for a StatefulSet with one Pod, and reports whether there
// was a step. It creates a missing Pod, deletes a Pod of an earlier template, and counts the Pod in the status.
func runStatefulSet(r *run, o *object) bool {
	var set appsv1.StatefulSet
	if json.Unmarshal(o.raw, &set) != nil || o.DeletionTimestamp != nil {
		return false
	}
	revision := r.templateRevision(&set)
	found, pod := r.podOf(&set)
	switch {
	case found == nil:
		return r.createPod(&set, revision)
	case !metav1.IsControlledBy(pod, &set):
		return false // the Pod keeps the name until it is garbage-collected
	case pod.Labels[appsv1.ControllerRevisionHashLabelKey] != revision:
		return r.delete(found)
	}
	ready := int32(0)
	if serverRuns(pod) {
		ready = 1
	}
	if is := set.Status; is.ObservedGeneration == set.Generation && is.UpdateRevision == revision && is.Replicas == 1 &&
		is.ReadyReplicas == ready {
		return false
	}
	return r.patch(o, "status", map[string]any{"status": map[string]any{
		"observedGeneration": set.Generation, "currentRevision": revision, "updateRevision": revision,
		"replicas": 1, "currentReplicas": 1, "updatedReplicas": 1, "readyReplicas": ready, "availableReplicas": ready,
	}})
}

// templateRevision returns the revision of the Pod template of a StatefulSet. Equal templates have the same revision,
// even in different runs.
func (r *run) templateRevision(set *appsv1.StatefulSet) string {
	text, _ := json.Marshal(set.Spec.Template) // a decoded template can always be encoded
	sum := fnv.New32a()
	fmt.Fprint(sum, r.stableName(string(text)))
	return fmt.Sprintf("%s-%08x", set.Name, sum.Sum32())
}

// podOf returns the Pod that has the name of the only Pod of a StatefulSet, or nil.
func (r *run) podOf(set *appsv1.StatefulSet) (*object, *corev1.Pod) {
	o := r.find("pods", set.Namespace, set.Name+"-0")
	var pod corev1.Pod
	if o == nil || json.Unmarshal(o.raw, &pod) != nil {
		return nil, nil
	}
	return o, &pod
}

// find returns the newest version of an object in the core API group, or nil.
func (r *run) find(resource, namespace, name string) *object {
	objects, _ := r.history.objects(indexOf("", resource), newestVersion)
	for _, o := range objects {
		if o.Namespace == namespace && o.Name == name {
			return o
		}
	}
	return nil
}

func (r *run) createPod(set *appsv1.StatefulSet, revision string) bool {
	pod := corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: set.Spec.Template.Spec}
	pod.Name, pod.Labels = set.Name+"-0", maps.Clone(pod.Labels)
	pod.Labels[appsv1.ControllerRevisionHashLabelKey], pod.Labels[appsv1.StatefulSetPodNameLabel] = revision, pod.Name
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet", Name: set.Name, UID: set.UID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}}
	i := indexOf("", "pods")
	body := (&user{r}).withType(pod, resources[i].kind, resources[i].GroupVersion().String())
	return r.externalWrite(http.MethodPost, i, set.Namespace, "", "", "application/json", body)
}

// serverRuns reports whether the server in a Pod of a StatefulSet has started.
func serverRuns(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }

// isServerPod reports whether a StatefulSet controls a Pod.
func isServerPod(o *object) bool {
	for _, ref := range o.OwnerReferences {
		if resources[o.resource].Resource == "pods" && ref.Kind == "StatefulSet" && ptr.Deref(ref.Controller, false) {
			return true
		}
	}
	return false
}
