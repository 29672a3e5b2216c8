package plan

import (
	"encoding/json"
	"net/http"
	"net/url"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// access is a right of the user.
type access struct {
	verb, subresource string
	resource          schema.GroupResource
	namespace         string
}

// Denied returns a description of each right that the user lacks to let the API server check a write, such as
// "create deployments.apps in shop".
func (s *Server) Denied() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, denied := range s.denied {
		if denied {
			all = append(all, of.String())
		}
	}
	return all
}

// String implements fmt.Stringer.
func (a access) String() string {
	text := a.verb + " " + a.resource.String()
	if a.subresource != "" {
		text += "/" + a.subresource
	}
	if a.namespace != "" {
		text += " in " + a.namespace
	}
	return text
}

// isReview reports whether the resources of a group are questions, such as SubjectAccessReviews, which change nothing.
func isReview(group string) bool {
	return group == authorizationv1.GroupName || group == "authentication.k8s.io"
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// try sends a write with dryRun=All. unchecked is true if the API server cannot check it: see Write. The object in the
// answer is complete nevertheless if the answer is ok.
func (s *Server) try(
	q *request, at ref, method string, to *url.URL, body []byte,
) (a *answer, unchecked bool, err error) {
	home := s.objects[ref{resource: namespaces, name: at.namespace}]
	if home != nil && home.state != nil && home.stored == "" {
		a, err = s.tryElsewhere(q, method, body)
		return a, err != nil || a.code != http.StatusUnprocessableEntity, err
	}
	a, err = q.forward(method, dry(to), body)
	if err != nil {
		return nil, false, err
	}
	switch o := s.objects[at]; {
	case a.code == http.StatusConflict && method == http.MethodPost && o != nil && (o.gone || o.stored == ""):
		return a, true, nil // the planned writes have deleted the object that is in the way
	case a.code != http.StatusForbidden:
		return a, false, nil
	}
	denied, err := s.isDenied(q, method)
	return a, denied, err
}

// tryElsewhere lets the API server validate and complete an object whose namespace does not exist yet: it sends the
// object as an object of the namespace default. Other admission, such as a quota, is not known.
func (s *Server) tryElsewhere(q *request, method string, body []byte) (*answer, error) {
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(body, &obj.Object); err != nil || method != http.MethodPost {
		return refuse(apierrors.NewForbidden(q.Resource.GroupResource(), q.Name, err)), nil
	}
	obj.SetNamespace(metav1.NamespaceDefault)
	body, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, err
	}
	return q.forward(method, dry(q.urlOf(ref{resource: q.ref().resource, namespace: metav1.NamespaceDefault}, "")), body)
}

// trySending is try for a whole object.
func (s *Server) trySending(
	q *request, method string, to *url.URL, obj *unstructured.Unstructured,
) (a *answer, unchecked bool, err error) {
	body, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, false, err
	}
	return s.try(q, q.ref(), method, to, body)
}

// isDenied reports whether the user lacks the right to send a write. Otherwise admission has refused it, as it would
// refuse the write of the operator.
func (s *Server) isDenied(q *request, method string) (bool, error) {
	verb := map[string]string{
		http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[method]
	of := access{verb, q.Subresource, q.Resource.GroupResource(), q.Namespace}
	if denied, known := s.denied[of]; known {
		return denied, nil
	}
	review := authorizationv1.SelfSubjectAccessReview{}
	review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Verb: verb, Group: q.Resource.Group, Resource: q.Resource.Resource, Subresource: q.Subresource,
		Namespace: q.Namespace,
	}
	review.APIVersion, review.Kind = authorizationv1.SchemeGroupVersion.String(), "SelfSubjectAccessReview"
	body, err := json.Marshal(review)
	if err != nil {
		return false, err
	}
	to := *q.URL
	to.Path, to.RawPath, to.RawQuery = q.base+"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "", ""
	asked := &request{Request: q.Clone(q.Context()), base: q.base, next: q.next}
	asked.Method = ""
	asked.Header.Set("Accept", "application/json")
	a, err := asked.forward(http.MethodPost, dry(&to), body)
	if err != nil {
		return false, err
	}
	if !a.ok() || json.Unmarshal(a.body, &review) != nil {
		return false, nil
	}
	s.denied[of] = !review.Status.Allowed
	return s.denied[of], nil
}
