package faults

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// The command endless never ends, and the command failing fails. Every other command succeeds at once.
const endless, failing = "endless", "failing"

// runPod takes a step of the kubelet for a Pod without a scheduling gate, and reports whether there was a step. A step
// starts the containers, or ends containers. Pods have no node here, so a deletion has no grace period.
func runPod(r *run, o *object) bool {
	var pod corev1.Pod
	if json.Unmarshal(o.raw, &pod) != nil || len(pod.Spec.Containers) == 0 || len(pod.Spec.SchedulingGates) > 0 {
		return false
	}
	switch {
	case pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "":
		return pod.DeletionTimestamp == nil && r.report(o, &pod, corev1.PodRunning, "", func(int) *int32 { return nil })
	case pod.Status.Phase != corev1.PodRunning:
		return false
	case pod.DeletionTimestamp != nil:
		return !r.nodeIsLost() && r.report(o, &pod, corev1.PodFailed, "", func(int) *int32 { return new(int32(137)) })
	}
	code := exitCodeOf(&pod.Spec.Containers[0])
	switch limit := pod.Spec.ActiveDeadlineSeconds; {
	case len(pod.Spec.Containers) == 1 && code == nil:
		return false
	case len(pod.Spec.Containers) == 1 && *code == 0:
		return r.report(o, &pod, corev1.PodSucceeded, "", func(int) *int32 { return code })
	case len(pod.Spec.Containers) == 1:
		return r.report(o, &pod, corev1.PodFailed, "", func(int) *int32 { return code })
	case limit != nil && *limit == 1: // the operator ends the injected container
		return r.report(o, &pod, corev1.PodFailed, "DeadlineExceeded", func(i int) *int32 {
			return []*int32{code, new(int32(137))}[i]
		})
	case code == nil || slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Terminated != nil
	}):
		return false
	}
	return r.report(o, &pod, corev1.PodRunning, "", func(i int) *int32 { return []*int32{code, nil}[i] })
}

// exitCodeOf returns the exit code of the command in a container, or nil if the command does not end.
func exitCodeOf(c *corev1.Container) *int32 {
	switch strings.Join(c.Command, " ") {
	case endless:
		return nil
	case failing:
		return new(int32(1))
	}
	return new(int32(0))
}

// report writes the status of a Pod. exitCode returns the exit code of a container, or nil if the container runs.
func (r *run) report(o *object, pod *corev1.Pod, phase corev1.PodPhase, reason string, exitCode func(int) *int32) bool {
	now := time.Now().UTC().Format(time.RFC3339)
	var containers []any
	for i, c := range pod.Spec.Containers {
		status := map[string]any{
			"name": c.Name, "image": "any", "imageID": "any", "restartCount": 0, "ready": true, "state": map[string]any{
				"running": map[string]any{"startedAt": now},
			},
		}
		if code := exitCode(i); code != nil {
			why := "Completed"
			if *code != 0 {
				why = "Error"
			}
			status["ready"] = false
			status["state"] = map[string]any{
				"terminated": map[string]any{"exitCode": *code, "reason": why, "startedAt": now, "finishedAt": now},
			}
		}
		containers = append(containers, status)
	}
	status := map[string]any{"phase": phase, "containerStatuses": containers}
	if reason != "" {
		status["reason"] = reason
	}
	return r.patch(o, "status", map[string]any{"status": status})
}

// Ways in which a Pod is lost. They are also faults of a request.
const (
	podDeleted = "pod-deleted" // a user deletes the Pod, and the kubelet ends its containers
	podEvicted = "pod-evicted" // the eviction API deletes the Pod, as in a drain
	podForced  = "pod-forced"  // a user deletes the Pod by force, and its node does not respond any more
	nodeLost   = "node-lost"   // the node is deleted, and the garbage collector of Pods deletes the Pod
)

var podLosses = []string{podDeleted, podEvicted, podForced, nodeLost}

// nodeIsLost reports whether the node of a Pod is lost, so that no kubelet reports the end of the Pod.
func (r *run) nodeIsLost() bool {
	return r.scenario.loss == podForced || r.scenario.loss == nodeLost || r.plan.fault == podForced ||
		r.plan.fault == nodeLost
}

// losePod returns a step in which the Pods of commands are lost in the given way. The step skips Pods that a fault has
// already deleted.
func losePod(how string) step {
	return func(u *user) {
		for _, o := range u.run.history.current() {
			if resources[o.resource].Resource == "pods" && o.DeletionTimestamp == nil {
				u.losePod(o, how)
			}
		}
	}
}

func (u *user) losePod(o *object, how string) {
	var pod corev1.Pod
	_ = json.Unmarshal(o.raw, &pod) // a Pod without a status is pending
	disrupted := func(reason string) []any {
		return []any{
			map[string]any{
				"type": corev1.DisruptionTarget, "status": corev1.ConditionTrue, "reason": reason, "message": "The Pod has to go.",
			},
		}
	}
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case ended:
	case how == podEvicted:
		u.run.patch(o, "status", map[string]any{"status": map[string]any{"conditions": disrupted("EvictionByEvictionAPI")}})
	case how == nodeLost:
		u.run.patch(o, "status", map[string]any{
			"status": map[string]any{"phase": corev1.PodFailed, "conditions": disrupted("DeletionByPodGC")},
		})
	}
	u.run.delete(o)
}

// checkRunsOnce checks that each attempt of an At got one Pod, and that no Pod waits for the operator at the end.
func checkRunsOnce(u *user) {
	created := map[string]bool{}
	for _, e := range u.run.history.eventsUntil(newestVersion) {
		if e.kind != watch.Added || resources[e.resource].Resource != "pods" || len(e.OwnerReferences) == 0 {
			continue
		}
		attempt := string(e.OwnerReferences[0].UID) + e.Annotations["cnat.programming-kubernetes.info/attempt"]
		if created[attempt] && !u.run.plan.createsLatePod() {
			u.run.addViolation("an attempt of a command got two Pods")
		}
		created[attempt] = true
	}
	checkReleased(u)
}

// checkReleased checks that no Pod waits for the operator at the end, except Pods whose commands run.
func checkReleased(u *user) {
	for _, o := range u.run.history.current() {
		if o.DeletionTimestamp != nil || resources[o.resource].Resource == "pods" && len(o.Finalizers) > 0 && !isEndless(o) {
			u.run.addViolation("%s still has the finalizers %v", u.run.fullName(o), o.Finalizers)
		}
	}
}

// isEndless reports whether the Pod runs a command that does not end.
func isEndless(o *object) bool { return strings.Contains(string(o.raw), endless) }

// inject adds a container to a Pod that a process creates, as the admission webhook of a mesh does.
func inject(a *apiRequest) {
	object, err := decode(a.body)
	pod, ok := object.(*corev1.Pod)
	if err != nil || !ok {
		a.process.run.addViolation("decoding a Pod: %v", err)
		return
	}
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "proxy", Image: "proxy:1"})
	text, _ := json.Marshal(pod) // a decoded Pod can always be encoded
	a.body, a.contentType = text, "application/json"
}
