package app

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// podCache finds the cached Pods of Apps. Pods without the managed-by label are not cached.
type podCache struct{ informer cache.SharedIndexInformer }

// podIndex is the index of Pods by the key of their App.
const podIndex = "app"

func newPodCache(c kinds.Cluster) (*podCache, error) {
	watched, err := pods.Watched(c.Owned)
	if err != nil {
		return nil, err
	}
	informer := watched.Informer()
	_, err = references.NewIndex(informer, podIndex, func(pod *corev1.Pod) (keys []string) {
		if key, ok := appOf(pod); ok {
			keys = append(keys, key.String())
		}
		return keys
	})
	return &podCache{informer}, err
}

// appOf returns the key of the App that a Pod belongs to, from a label of the Pod and the name of its ReplicaSet. ok is
// false if the Pod belongs to no App.
func appOf(pod *corev1.Pod) (key controller.Key, ok bool) {
	name, owner := pod.Labels[appLabel], metav1.GetControllerOfNoCopy(pod)
	if name == "" || owner == nil || owner.Kind != "ReplicaSet" || !strings.HasPrefix(owner.Name, name+"-") {
		return key, false
	}
	return controller.Key{Namespace: pod.Namespace, Name: name}, true
}

// podsOf returns the Pods of an App, the oldest first.
func (c *podCache) podsOf(app *v1alpha1.App) []*corev1.Pod {
	found, err := c.informer.GetIndexer().ByIndex(podIndex, cache.MetaObjectToName(app).String())
	if err != nil || len(found) == 0 {
		return nil // no error happens, because newPodCache has added the index
	}
	all := make([]*corev1.Pod, 0, len(found))
	for _, obj := range found {
		if pod, ok := obj.(*corev1.Pod); ok {
			all = append(all, pod)
		}
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// References returns the Reference to the Pods. Only events of Pods with a symptom cause a reconcile of their App. For
// other Pods, the status of the Deployment is sufficient.
func (c *podCache) References() []controller.Reference {
	return []controller.Reference{{Informer: c.informer, Referrers: func(obj metav1.Object) (keys []controller.Key) {
		if pod, ok := obj.(*corev1.Pod); ok && pods.HasSymptom(pod) {
			if key, ok := appOf(pod); ok {
				keys = append(keys, key)
			}
		}
		return keys
	}}}
}

// maxImageID is the maximum length of status.lastAvailable.imageID.
const maxImageID = 1024

// imageID returns the image ID that the kubelet reports for the oldest Pod of a template, or "".
func (c *podCache) imageID(app *v1alpha1.App, template string) string {
	for _, pod := range c.podsOf(app) {
		if id := pods.StatusOf(pod, containerNamedIn(pod)).ImageID; pod.Annotations[TemplateDigestAnnotation] == template &&
			id != "" && len(id) <= maxImageID {
			return id
		}
	}
	return ""
}

// problemsOf returns the problems of an App's Pods, or nil: see findProblems. d is the Deployment of the App.
func (c *podCache) problemsOf(
	app *v1alpha1.App, d *appsv1.Deployment, now time.Time,
) (found *podProblems, requeueAfter time.Duration) {
	all := c.podsOf(app)
	if !slices.ContainsFunc(all, pods.HasSymptom) {
		return nil, 0
	}
	return findProblems(d, all, now)
}

// podProblems describes the Pods of an App that do not run: the problem of the oldest, and how many Pods have a
// problem.
type podProblems struct {
	pods.Problem
	pod   *corev1.Pod // the oldest Pod that has the problem
	which string      // the group of Pods: "new Pods", or previousPods if no Pod of the newest template has a problem
	count int         // the number of Pods in the group that have a problem
	among int         // the number of Pods in the group
	ready int         // the number of Pods in both groups that are ready and have no problem
}

const previousPods = "previous Pods"

// findProblems returns the problems of the Pods of the Deployment's newest template or, if these Pods have none, of the
// other Pods. It returns nil if no Pod has a problem. requeueAfter is positive if time alone can change the result.
func findProblems(
	d *appsv1.Deployment, all []*corev1.Pod, now time.Time,
) (found *podProblems, requeueAfter time.Duration) {
	newest, previous, ready := &podProblems{which: "new Pods"}, &podProblems{which: previousPods}, 0
	for _, pod := range all {
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			continue // its ReplicaSet replaces it
		}
		into := previous
		if pod.Annotations[TemplateDigestAnnotation] == d.Spec.Template.Annotations[TemplateDigestAnnotation] {
			into = newest
		}
		into.among++
		problem, wait := pods.ProblemOf(pod, containerNamedIn(pod), now)
		requeueAfter = pods.Earliest(requeueAfter, wait)
		switch {
		case problem == nil && pods.ConditionOf(pod, corev1.PodReady).Status == corev1.ConditionTrue:
			ready++
		case problem != nil && into.count == 0:
			into.Problem, into.pod, into.count = *problem, pod, 1
		case problem != nil:
			into.count++
		}
	}
	for _, t := range []*podProblems{newest, previous} {
		if t.count > 0 {
			t.ready = ready
			return t, requeueAfter
		}
	}
	return nil, requeueAfter
}

// note returns the reason and message for the conditions of the App. before are its current conditions.
func (t *podProblems) note(before []metav1.Condition) controller.Note {
	namespace, name := t.pod.Namespace, t.pod.Name
	hint := fmt.Sprintf("kubectl describe pod -n %s %s", namespace, name)
	if t.Reason == pods.ReasonCrashing {
		hint = fmt.Sprintf("kubectl logs -n %s %s --previous", namespace, name)
		if t.Container != "" {
			hint += " -c " + t.Container
		}
	}
	message := messagePods.With(name, t.pod.CreationTimestamp.UTC().Format(time.RFC3339), t.Message,
		roundedDown(t.count), roundedDown(t.among), t.which, roundedDown(t.ready), hint)
	return controller.Note{Reason: t.Reason, Message: t.WithWords(message, before)}
}

// roundedDown formats a number of Pods, so that the status is not written for each of many Pods that fail one after the
// other. A number up to 3 stays as it is. A higher number becomes the highest power of two that does not exceed it,
// followed by "+".
func roundedDown(count int) string {
	if count <= 3 {
		return fmt.Sprint(count)
	}
	power := 4
	for power*2 <= count {
		power *= 2
	}
	return fmt.Sprintf("%d+", power)
}

// describe returns the Summary of an App whose Pods have problems. s is the summary of its Deployment, and needed is
// the number of Pods that have to be available. A Ready Deployment makes the App Ready in spite of the problems, with
// one exception: without a probe, a crashing container is available for a moment between two crashes. An App that is
// not Ready therefore stays so until needed Pods are ready and have no problem.
func (t *podProblems) describe(app *v1alpha1.App, s controller.Summary, needed int32) controller.Summary {
	before := conditions.Find(app.Status.Conditions, conditions.Ready)
	note := t.note(app.Status.Conditions)
	wasReady := before == nil || before.Status == metav1.ConditionTrue
	betweenCrashes := t.Reason == pods.ReasonCrashing && !wasReady && t.ready < int(needed)
	switch {
	case s.State == controller.StateReady && !betweenCrashes:
		return s
	case s.State == controller.StateProgressing && t.which == previousPods:
		return s // the rollout replaces them
	case s.State == controller.StateStalled, s.State == controller.StateDegraded:
		s.Message += " " + note.Message
		return s
	}
	return controller.Summary{State: controller.StateDegraded, Note: note}
}
