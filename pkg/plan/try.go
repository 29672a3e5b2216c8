package plan

import (
	"context"
	"errors"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"windlass.dev/windlass/pkg/cache/optional"
)

// Denied returns a description of each permission that the user lacks to let the API server check a write, such as
// "create deployments.apps in shop".
func (s *Server) Denied() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, denied := range s.denied {
		if !denied {
			continue
		}
		text := of.Verb + " " + schema.GroupResource{Group: of.Group, Resource: of.Resource}.String()
		if of.Subresource != "" {
			text += "/" + of.Subresource
		}
		if of.Namespace != "" {
			text += " in " + of.Namespace
		}
		all = append(all, text)
	}
	return all
}

// isUnchecked reports whether a dry run has failed because the user lacks permission to send the write. If not,
// admission has rejected the write, and would also reject the write of the operator.
func (s *Server) isUnchecked(q *request, verb string, err error) bool {
	if !apierrors.IsForbidden(err) {
		return false
	}
	of := authorizationv1.ResourceAttributes{
		Verb: verb, Group: q.Resource.Group, Resource: q.Resource.Resource, Subresource: q.Subresource,
		Namespace: q.Namespace,
	}
	if denied, known := s.denied[of]; known {
		return denied
	}
	review := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &of},
	}
	review, err = s.reviews.Create(q.Context(), review, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return false
	}
	s.denied[of] = !review.Status.Allowed
	return s.denied[of]
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// tryCreating creates an object with dryRun=All. unchecked is true if the API server cannot check the object: see
// Write. If the dry run succeeds, made has the defaults of the API server even if unchecked is true.
//
// The API server validates and completes an object whose namespace does not exist yet as an object of the namespace
// default. The result of other admission, such as a quota, is not known.
func (s *Server) tryCreating(
	q *request, at ref, want *unstructured.Unstructured,
) (made *unstructured.Unstructured, unchecked bool, err error) {
	home, known := s.objects[ref{resource: namespaces, name: at.namespace}], s.objects[at]
	isElsewhere, sent := home != nil && home.state != nil && home.made, want.DeepCopy()
	if isElsewhere {
		at.namespace = metav1.NamespaceDefault
		sent.SetNamespace(at.namespace)
	}
	made, err = s.live(at).Create(q.Context(), sent, q.options())
	switch {
	case isElsewhere:
		unchecked = err == nil || errors.As(err, new(apierrors.APIStatus)) && !apierrors.IsInvalid(err) &&
			!optional.IsTypeMissing(err)
	case apierrors.IsAlreadyExists(err) && known != nil && known.made:
		unchecked = true // the planned writes have deleted the object with this name
	default:
		unchecked = s.isUnchecked(q, "create", err)
	}
	if err != nil {
		made = want.DeepCopy()
	}
	if unchecked {
		err = nil
	}
	made.SetNamespace(q.Namespace)
	return made, unchecked, err
}

// tryPatching sends a patch with dryRun=All.
func (s *Server) tryPatching(q *request) (*unstructured.Unstructured, error) {
	o := q.options()
	return s.live(q.ref()).Patch(q.Context(), q.Name, q.patchType(), q.body, metav1.PatchOptions{
		DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation,
	}, q.subresources()...)
}

// tryReplacing sends an object as a whole with dryRun=All. The object on the API server lacks the planned writes, and
// another client may have changed it. tryReplacing therefore sends the resource version of that object.
func (s *Server) tryReplacing(
	q *request, want *unstructured.Unstructured,
) (result *unstructured.Unstructured, err error) {
	client := s.live(q.ref())
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := client.Get(q.Context(), q.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		sent := want.DeepCopy()
		sent.SetResourceVersion(live.GetResourceVersion())
		if live.GetDeletionTimestamp() == nil { // no update may set these fields
			sent.SetDeletionTimestamp(nil)
			sent.SetDeletionGracePeriodSeconds(nil)
		}
		result, err = client.Update(q.Context(), sent, metav1.UpdateOptions(q.options()), q.subresources()...)
		return err
	})
	return result, err
}

// tryDeleting deletes an object with dryRun=All.
func (s *Server) tryDeleting(ctx context.Context, at ref, uid *types.UID, opts metav1.DeleteOptions) error {
	opts.DryRun, opts.Preconditions = []string{metav1.DryRunAll}, &metav1.Preconditions{UID: uid}
	return s.live(at).Delete(ctx, at.name, opts)
}

// options returns the options of a write that affect its result, with dryRun=All.
func (q *request) options() metav1.CreateOptions {
	query := q.URL.Query()
	return metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: query.Get("fieldManager"),
		FieldValidation: query.Get("fieldValidation"),
	}
}
