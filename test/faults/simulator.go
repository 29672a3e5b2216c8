package faults

import (
	"encoding/json"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// simulateStep takes the next step of Kubernetes' controllers or of a kubelet, and reports whether there was a step.
// The run calls simulateStep when the operator has nothing to do.
func simulateStep(r *run) bool {
	objects := r.history.current()
	for _, o := range objects {
		if collectGarbage(r, o, objects) || removeClaimProtection(r, o) || autoscale(r, o, objects) || simulateStatus(r, o) {
			return true
		}
	}
	return false
}

// collectGarbage takes one step of garbage collection for an object, and reports whether there was a step
// (https://kubernetes.io/docs/concepts/architecture/garbage-collection/).
func collectGarbage(r *run, o *object, all []*object) bool {
	if o.DeletionTimestamp != nil && slices.Contains(o.Finalizers, metav1.FinalizerOrphanDependents) {
		return orphanChildren(r, o, all)
	}
	if o.DeletionTimestamp != nil && slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents) {
		for _, other := range all {
			if other.DeletionTimestamp == nil &&
				slices.ContainsFunc(other.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == o.UID }) {
				return r.delete(other)
			}
			if slices.ContainsFunc(other.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == o.UID }) {
				return false // the owner waits for its children
			}
		}
		return r.removeFinalizer(o, metav1.FinalizerDeleteDependents)
	}
	if o.DeletionTimestamp == nil && len(o.OwnerReferences) > 0 &&
		!slices.ContainsFunc(o.OwnerReferences, func(ref metav1.OwnerReference) bool { return hasUID(all, ref.UID) }) {
		return r.delete(o)
	}
	return false
}

// orphanChildren removes the owner reference from one child of an object, or the finalizer from the object if no child
// is left.
func orphanChildren(r *run, o *object, all []*object) bool {
	refersTo := func(ref metav1.OwnerReference) bool { return ref.UID == o.UID }
	for _, child := range all {
		if slices.ContainsFunc(child.OwnerReferences, refersTo) {
			remaining := slices.DeleteFunc(slices.Clone(child.OwnerReferences), refersTo)
			return r.patch(child, "", map[string]any{"metadata": map[string]any{"ownerReferences": remaining, "uid": child.UID}})
		}
	}
	return r.removeFinalizer(o, metav1.FinalizerOrphanDependents)
}

func hasUID(all []*object, uid types.UID) bool {
	return slices.ContainsFunc(all, func(o *object) bool { return o.UID == uid })
}

// claimProtection is the finalizer that keeps a claim while a Pod uses the claim. The simulator removes the finalizer
// even if a Pod uses the claim. The simulated server in the Pod then keeps its data until the Pod ends.
const claimProtection = "kubernetes.io/pvc-protection"

// removeClaimProtection removes claimProtection from a claim that is being deleted.
func removeClaimProtection(r *run, o *object) bool {
	return o.DeletionTimestamp != nil && slices.Contains(o.Finalizers, claimProtection) &&
		r.removeFinalizer(o, claimProtection)
}

func (r *run) removeFinalizer(o *object, finalizer string) bool {
	remaining := slices.DeleteFunc(slices.Clone(o.Finalizers), func(f string) bool { return f == finalizer })
	return r.patch(o, "", map[string]any{
		"metadata": map[string]any{"finalizers": remaining, "resourceVersion": o.ResourceVersion},
	})
}

// autoscale scales a Deployment to the minimum, like an autoscaler without load.
func autoscale(r *run, o *object, all []*object) bool {
	if resources[o.resource].Resource != "horizontalpodautoscalers" || o.DeletionTimestamp != nil {
		return false
	}
	var autoscaler struct {
		Spec struct {
			MinReplicas    int32
			ScaleTargetRef struct{ Name string }
		}
	}
	_ = json.Unmarshal(o.raw, &autoscaler) // without a target there is nothing to scale
	for _, target := range all {
		var live struct{ Spec struct{ Replicas int32 } }
		if resources[target.resource].Resource != "deployments" || target.Name != autoscaler.Spec.ScaleTargetRef.Name ||
			target.DeletionTimestamp != nil || json.Unmarshal(target.raw, &live) != nil ||
			live.Spec.Replicas == autoscaler.Spec.MinReplicas {
			continue
		}
		return r.patch(target, "", map[string]any{"spec": map[string]any{"replicas": autoscaler.Spec.MinReplicas}})
	}
	return false
}

// simulateStatus updates the status of a workload, claim or Pod, and reports whether there was something to update.
func simulateStatus(r *run, o *object) bool {
	switch resources[o.resource].Resource {
	case "deployments":
		return rollOut(r, o, map[string]any{"conditions": []map[string]any{
			{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
			{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
		}})
	case "statefulsets":
		if r.scenario.hasServers() {
			return runStatefulSet(r, o)
		}
		return rollOut(r, o, map[string]any{"currentRevision": "newest", "updateRevision": "newest"})
	case "persistentvolumeclaims":
		return bindClaim(r, o)
	case "pods":
		if isServerPod(o) {
			return runServer(r, o)
		}
		return runPod(r, o)
	}
	return false
}

// replicaCounts are the fields of a status that count Pods.
var replicaCounts = []string{"replicas", "readyReplicas", "updatedReplicas", "availableReplicas"}

// rollOut makes all replicas of a workload ready at once. status holds the fields of the new status that depend on the
// kind of the workload.
func rollOut(r *run, o *object, status map[string]any) bool {
	var live struct {
		Spec   struct{ Replicas *int32 }
		Status struct {
			ObservedGeneration int64
			ReadyReplicas      int32
		}
	}
	if json.Unmarshal(o.raw, &live) != nil || o.DeletionTimestamp != nil {
		return false
	}
	replicas := int32(1)
	if live.Spec.Replicas != nil {
		replicas = *live.Spec.Replicas
	}
	if live.Status.ObservedGeneration == o.Generation && live.Status.ReadyReplicas == replicas {
		return false
	}
	status["observedGeneration"] = o.Generation
	for _, count := range replicaCounts {
		status[count] = replicas
	}
	return r.patch(o, "status", map[string]any{"status": status})
}

// bindClaim binds a claim, with the requested capacity.
func bindClaim(r *run, o *object) bool {
	var live struct {
		Spec struct {
			Resources struct{ Requests map[string]string }
		}
		Status struct {
			Phase    string
			Capacity map[string]string
		}
	}
	if json.Unmarshal(o.raw, &live) != nil || o.DeletionTimestamp != nil {
		return false
	}
	size := live.Spec.Resources.Requests["storage"]
	if live.Status.Phase == "Bound" && live.Status.Capacity["storage"] == size {
		return false
	}
	return r.patch(o, "status", map[string]any{
		"status": map[string]any{"phase": "Bound", "capacity": map[string]string{"storage": size}},
	})
}

// delete and patch send writes of the simulator or of a user. Such writes have no faults.
func (r *run) delete(o *object) bool {
	return r.externalWriteTo(http.MethodDelete, o, "", "application/json", map[string]any{
		"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background", "preconditions": map[string]any{
			"uid": o.UID,
		},
	})
}

func (r *run) patch(o *object, subresource string, patch any) bool {
	return r.externalWriteTo(http.MethodPatch, o, subresource, string(types.MergePatchType), patch)
}

func (r *run) externalWriteTo(method string, o *object, subresource, contentType string, body any) bool {
	return r.externalWrite(method, o.resource, o.Namespace, o.Name, subresource, contentType, body)
}
