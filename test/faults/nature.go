package faults

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nature does what the controllers of Kubernetes and a kubelet would: it carries out the
// first thing that is to be done, and tells whether there was one. They have no say in
// when that is: always when the operator has nothing to do.
func nature(r *run) bool {
	objects := r.history.current()
	for _, o := range objects {
		if collect(r, o, objects) || release(r, o) || scale(r, o, objects) || unfold(r, o) {
			return true
		}
	}
	return false
}

// collect is garbage collection of one object
// (https://kubernetes.io/docs/concepts/architecture/garbage-collection/).
func collect(r *run, o *object, all []*object) bool {
	if o.DeletionTimestamp != nil && slices.Contains(o.Finalizers, metav1.FinalizerOrphanDependents) {
		return orphan(r, o, all)
	}
	if o.DeletionTimestamp != nil && slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents) {
		for _, other := range all {
			if other.DeletionTimestamp == nil && slices.ContainsFunc(other.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == o.UID }) {
				return r.delete(other)
			}
			if slices.ContainsFunc(other.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == o.UID }) {
				return false // it waits
			}
		}
		return r.withoutFinalizer(o, metav1.FinalizerDeleteDependents)
	}
	if o.DeletionTimestamp == nil && len(o.OwnerReferences) > 0 && !slices.ContainsFunc(o.OwnerReferences, func(ref metav1.OwnerReference) bool { return exists(all, ref.UID) }) {
		return r.delete(o)
	}
	return false
}

// orphan takes the reference to an object from its children, one at a time, and lets it go.
func orphan(r *run, o *object, all []*object) bool {
	isTo := func(ref metav1.OwnerReference) bool { return ref.UID == o.UID }
	for _, child := range all {
		if slices.ContainsFunc(child.OwnerReferences, isTo) {
			rest := slices.DeleteFunc(slices.Clone(child.OwnerReferences), isTo)
			return r.patch(child, "", map[string]any{"metadata": map[string]any{"ownerReferences": rest, "uid": child.UID}})
		}
	}
	return r.withoutFinalizer(o, metav1.FinalizerOrphanDependents)
}

func exists(all []*object, uid types.UID) bool {
	return slices.ContainsFunc(all, func(o *object) bool { return o.UID == uid })
}

// inUse holds a claim until no Pod uses it, which is always so here.
const inUse = "kubernetes.io/pvc-protection"

// release lets a claim go that is being deleted.
func release(r *run, o *object) bool {
	return o.DeletionTimestamp != nil && slices.Contains(o.Finalizers, inUse) && r.withoutFinalizer(o, inUse)
}

func (r *run) withoutFinalizer(o *object, finalizer string) bool {
	rest := slices.DeleteFunc(slices.Clone(o.Finalizers), func(f string) bool { return f == finalizer })
	return r.patch(o, "", map[string]any{"metadata": map[string]any{"finalizers": rest, "resourceVersion": o.ResourceVersion}})
}

// scale is an autoscaler without load: it wants as few Pods as it may.
func scale(r *run, o *object, all []*object) bool {
	if resources[o.resource].Resource != "horizontalpodautoscalers" || o.DeletionTimestamp != nil {
		return false
	}
	var autoscaler struct {
		Spec struct {
			MinReplicas    int32
			ScaleTargetRef struct{ Name string }
		}
	}
	_ = json.Unmarshal(o.raw, &autoscaler) // then it wants nothing
	for _, target := range all {
		var is struct{ Spec struct{ Replicas int32 } }
		if resources[target.resource].Resource != "deployments" || target.Name != autoscaler.Spec.ScaleTargetRef.Name ||
			target.DeletionTimestamp != nil || json.Unmarshal(target.raw, &is) != nil || is.Spec.Replicas == autoscaler.Spec.MinReplicas {
			continue
		}
		return r.patch(target, "", map[string]any{"spec": map[string]any{"replicas": autoscaler.Spec.MinReplicas}})
	}
	return false
}

// unfold has one object go one step further on its way.
func unfold(r *run, o *object) bool {
	switch resources[o.resource].Resource {
	case "deployments":
		return rollOut(r, o, map[string]any{"conditions": []map[string]any{
			{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
			{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
		}})
	case "statefulsets":
		return rollOut(r, o, map[string]any{"currentRevision": "newest", "updateRevision": "newest"})
	case "persistentvolumeclaims":
		return bind(r, o)
	case "pods":
		return runPod(r, o)
	}
	return false
}

// replicaCounts are the fields of a status that tell of Pods.
var replicaCounts = []string{"replicas", "readyReplicas", "updatedReplicas", "availableReplicas"}

// rollOut has all replicas there at once.
func rollOut(r *run, o *object, status map[string]any) bool {
	var is struct {
		Spec   struct{ Replicas *int32 }
		Status struct {
			ObservedGeneration int64
			ReadyReplicas      int32
		}
	}
	if json.Unmarshal(o.raw, &is) != nil || o.DeletionTimestamp != nil {
		return false
	}
	replicas := int32(1)
	if is.Spec.Replicas != nil {
		replicas = *is.Spec.Replicas
	}
	if is.Status.ObservedGeneration == o.Generation && is.Status.ReadyReplicas == replicas {
		return false
	}
	status["observedGeneration"] = o.Generation
	for _, count := range replicaCounts {
		status[count] = replicas
	}
	return r.patch(o, "status", map[string]any{"status": status})
}

// bind gives a claim what it asks for.
func bind(r *run, o *object) bool {
	var is struct {
		Spec struct {
			Resources struct{ Requests map[string]string }
		}
		Status struct {
			Phase    string
			Capacity map[string]string
		}
	}
	if json.Unmarshal(o.raw, &is) != nil || o.DeletionTimestamp != nil {
		return false
	}
	size := is.Spec.Resources.Requests["storage"]
	if is.Status.Phase == "Bound" && is.Status.Capacity["storage"] == size {
		return false
	}
	return r.patch(o, "status", map[string]any{"status": map[string]any{"phase": "Bound", "capacity": map[string]string{"storage": size}}})
}

// Commands that do not end well at once, as others do.
const endless, failing = "endless", "failing"

// runPod has the container of a Pod start, and end.
func runPod(r *run, o *object) bool {
	var is struct {
		Spec struct {
			Containers []struct {
				Name    string
				Command []string
			}
		}
		Status struct{ Phase string }
	}
	if json.Unmarshal(o.raw, &is) != nil || o.DeletionTimestamp != nil || len(is.Spec.Containers) == 0 {
		return false
	}
	command := strings.Join(is.Spec.Containers[0].Command, " ")
	now := time.Now().UTC().Format(time.RFC3339)
	container := map[string]any{"name": is.Spec.Containers[0].Name, "image": "any", "imageID": "any", "restartCount": 0}
	phase := ""
	switch is.Status.Phase {
	case "", "Pending":
		phase = "Running"
		container["ready"], container["state"] = true, map[string]any{"running": map[string]any{"startedAt": now}}
	case "Running":
		if command == endless {
			return false
		}
		code, reason := 0, "Completed"
		if phase = "Succeeded"; command == failing {
			phase, code, reason = "Failed", 1, "Error"
		}
		container["ready"], container["state"] = false, map[string]any{"terminated": map[string]any{"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now}}
	default:
		return false
	}
	return r.patch(o, "status", map[string]any{"status": map[string]any{"phase": phase, "containerStatuses": []any{container}}})
}

// delete and patch are writes of nature's, which never go wrong but by being late.
func (r *run) delete(o *object) bool {
	return r.byOthers(http.MethodDelete, o, "", "application/json", map[string]any{
		"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background", "preconditions": map[string]any{"uid": o.UID},
	})
}

func (r *run) patch(o *object, subresource string, patch any) bool {
	return r.byOthers(http.MethodPatch, o, subresource, string(types.MergePatchType), patch)
}

func (r *run) byOthers(method string, o *object, subresource, contentType string, body any) bool {
	return r.write(method, o.resource, o.Namespace, o.Name, subresource, contentType, body)
}
