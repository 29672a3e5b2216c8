package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"windlass.dev/windlass/pkg/cache/optional"
)

// list responds with the list of the API server, changed by the planned writes. Reflectors repeat a failed list for
// ever and do not return its error, so list passes the error to Run.Start, unless the API server lacks a type that it
// may lack.
func (s *Server) list(q *request, next http.RoundTripper) (*http.Response, error) {
	response, err := s.laid(q, next)
	isMissing := slices.Contains(s.mayLack, q.Resource.Group) && optional.IsTypeMissing(err)
	if err != nil && !isMissing {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failed(fmt.Errorf("listing %s: %w", q.Resource.GroupResource(), err))
	}
	return response, err
}

// onFailure makes the Server pass the errors of lists to a function.
func (s *Server) onFailure(failed func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = failed
}

// laid returns the response to a list. It sets a new resource version of the list, by which the Server recognizes the
// watch that follows.
func (s *Server) laid(q *request, next http.RoundTripper) (*http.Response, error) {
	chosen, err := q.selection()
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	r := q.Clone(q.Context())
	accepted := strings.Split(r.Header.Get("Accept"), ",")
	accepted = slices.DeleteFunc(accepted, func(form string) bool { return strings.Contains(form, "protobuf") })
	r.Header.Set("Accept", strings.Join(accepted, ","))
	response, err := next.RoundTrip(r)
	if err != nil || response.Header.Get("Retry-After") != "" { // the client tries again: see rest.Request
		return response, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, failure(q, response)
	}
	live := &metav1.List{} // its items stay encoded, because unstructured objects take many times the memory
	if err := json.NewDecoder(response.Body).Decode(live); err != nil {
		return nil, fmt.Errorf("decoding the list of the API server: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := strings.TrimSuffix(live.Kind, "List")
	if chosen.partial {
		kind = ""
	}
	s.learn(q.Resource, kind)
	if err := s.lay(chosen, live); err != nil {
		return nil, err
	}
	live.ResourceVersion = s.nextVersion(live.ResourceVersion)
	s.lists[live.ResourceVersion] = chosen
	return q.response(http.StatusOK, live)
}

// failure returns the error in a response.
func failure(q *request, response *http.Response) error {
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	status := metav1.Status{}
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" {
		return &apierrors.StatusError{ErrStatus: status}
	}
	return apierrors.NewGenericServerResponse(response.StatusCode, "list", q.Resource.GroupResource(), "", string(body), 0,
		true)
}

// lay applies the planned changes to a list, and remembers the objects of the list that the Server does not know yet.
func (s *Server) lay(chosen selection, live *metav1.List) error {
	items := make([]runtime.RawExtension, 0, len(live.Items))
	for _, encoded := range live.Items {
		item := &metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(encoded.Raw, item); err != nil {
			return fmt.Errorf("decoding an item of the list of the API server: %w", err)
		}
		at := ref{chosen.resource, item.Namespace, item.Name}
		if s.objects[at] == nil {
			item.Annotations, item.ManagedFields = nil, nil // these fields take much memory
			s.objects[at] = &object{Object: item}
		}
		if s.objects[at].isUnchanged() {
			items = append(items, encoded)
		}
	}
	for at, known := range s.objects {
		if at.resource == chosen.resource && known.state != nil && chosen.has(known.state) {
			items = append(items, runtime.RawExtension{Object: chosen.form(known.state)})
		}
	}
	live.Items = items
	return nil
}
