package plan

import (
	"encoding/json"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// delete responds to a deletion. It only marks an object with finalizers, or a running Pod, as being deleted.
func (s *Server) delete(q *request) (*unstructured.Unstructured, error) {
	opts := metav1.DeleteOptions{}
	if len(q.body) > 0 {
		if err := json.Unmarshal(q.body, &opts); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if q.Resource.GroupResource() == namespaces {
		return nil, apierrors.NewBadRequest("a plan cannot show the deletion of a Namespace, because the namespace " +
			"controller deletes everything in it")
	}
	if ptr.Deref(opts.PropagationPolicy, "") == metav1.DeletePropagationOrphan {
		return nil, apierrors.NewBadRequest("a plan does not support the propagation policy Orphan")
	}
	current, err := s.current(q.Context(), q.ref())
	if err != nil {
		return nil, s.rejected(q, Write{}, err)
	}
	required := ptr.Deref(opts.Preconditions, metav1.Preconditions{})
	err = q.mayChange(current, ptr.Deref(required.UID, ""), ptr.Deref(required.ResourceVersion, ""))
	if err == nil && !s.objects[q.ref()].made {
		err = s.tryDeleting(q.Context(), q.ref(), required.UID, opts)
	}
	if err != nil && !s.isUnchecked(q, "delete", err) {
		return nil, s.rejected(q, Write{Before: current}, err)
	}
	after := terminating(current, opts)
	s.set(q.ref(), after)
	s.record(q, Write{Before: current, After: after})
	if after == nil {
		return current, nil
	}
	return after, nil
}

// terminating returns the object after its deletion was requested, or nil if the API server removes it at once.
func terminating(current *unstructured.Unstructured, opts metav1.DeleteOptions) *unstructured.Unstructured {
	after := current.DeepCopy()
	finalizers, own := after.GetFinalizers(), metav1.FinalizerDeleteDependents
	if ptr.Deref(opts.PropagationPolicy, "") == metav1.DeletePropagationForeground && !slices.Contains(finalizers, own) {
		finalizers = append(finalizers, own)
	}
	grace := gracePeriod(after, opts)
	if len(finalizers) == 0 && grace == 0 {
		return nil
	}
	after.SetFinalizers(finalizers)
	if after.GetDeletionTimestamp() == nil {
		after.SetDeletionTimestamp(ptr.To(metav1.Now()))
		after.SetDeletionGracePeriodSeconds(&grace)
		if after.GetGeneration() > 0 {
			after.SetGeneration(after.GetGeneration() + 1)
		}
	}
	return after
}

// gracePeriod returns the grace period of a Pod in seconds, and 0 for other objects. It also returns 0 for a Pod
// without a node and for a Pod that has ended (k8s.io/kubernetes, pkg/registry/core/pod/strategy.go).
func gracePeriod(obj *unstructured.Unstructured, opts metav1.DeleteOptions) (seconds int64) {
	node, _, _ := unstructured.NestedString(obj.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
	if obj.GetKind() != "Pod" || node == "" || phase == "Succeeded" || phase == "Failed" {
		return 0
	}
	if opts.GracePeriodSeconds != nil {
		return *opts.GracePeriodSeconds
	}
	seconds, _, _ = unstructured.NestedInt64(obj.Object, "spec", "terminationGracePeriodSeconds")
	return seconds
}
