package plan

import (
	"encoding/json"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// delete answers a deletion. An object with finalizers, and a running Pod, are only marked as being deleted.
func (s *Server) delete(q *request) (*answer, error) {
	opts := &metav1.DeleteOptions{}
	if len(q.body) > 0 {
		if err := json.Unmarshal(q.body, opts); err != nil {
			return refuse(apierrors.NewBadRequest(err.Error())), nil
		}
	}
	if q.Resource.GroupResource() == namespaces {
		return refuse(apierrors.NewBadRequest("a plan cannot show the deletion of a Namespace, because the namespace " +
			"controller deletes everything in it")), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(q)
	current, refusal, err := s.current(q)
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		return s.record(q, Write{}, refusal), nil
	}
	if refusal, err = s.deletable(q, opts, current); err != nil {
		return nil, err
	}
	if refusal != nil {
		return s.refused(q, current, refusal)
	}
	after := terminating(current, opts)
	s.set(q.ref(), after)
	answered := after
	if after == nil {
		answered = current
	}
	return s.record(q, Write{Before: current, After: after}, found(http.StatusOK, answered)), nil
}

// deletable returns the answer to a deletion that is refused, or nil.
func (s *Server) deletable(
	q *request, opts *metav1.DeleteOptions, current *unstructured.Unstructured,
) (*answer, error) {
	o, required := s.objects[q.ref()], ptr.Deref(opts.Preconditions, metav1.Preconditions{})
	if o.state != nil {
		wrong := preconditionsOf(q, current, ptr.Deref(required.UID, ""), ptr.Deref(required.ResourceVersion, ""))
		if wrong != nil {
			return refuse(wrong), nil
		}
		if o.stored == "" {
			return nil, nil
		}
		if required.ResourceVersion != nil {
			required.ResourceVersion = &o.stored
			opts.Preconditions = &required
		}
	}
	opts.APIVersion, opts.Kind, opts.DryRun = "v1", "DeleteOptions", []string{metav1.DryRunAll}
	body, err := json.Marshal(opts)
	if err != nil {
		return nil, err
	}
	a, unchecked, err := s.try(q, q.ref(), http.MethodDelete, q.URL, body)
	if err != nil || unchecked || a.ok() {
		return nil, err
	}
	return a, nil
}

// terminating returns the object after its deletion was requested, or nil if the API server removes it at once.
func terminating(current *unstructured.Unstructured, opts *metav1.DeleteOptions) *unstructured.Unstructured {
	after := current.DeepCopy()
	finalizers := after.GetFinalizers()
	add := func(finalizer string) {
		if !slices.Contains(finalizers, finalizer) {
			finalizers = append(finalizers, finalizer)
		}
	}
	switch ptr.Deref(opts.PropagationPolicy, "") {
	case metav1.DeletePropagationForeground:
		add(metav1.FinalizerDeleteDependents)
	case metav1.DeletePropagationOrphan:
		add(metav1.FinalizerOrphanDependents)
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

// gracePeriod returns the seconds that a Pod has to end, and 0 for other objects. A Pod without a node and a Pod that
// has ended have none (k8s.io/kubernetes, pkg/registry/core/pod/strategy.go).
func gracePeriod(obj *unstructured.Unstructured, opts *metav1.DeleteOptions) (seconds int64) {
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
