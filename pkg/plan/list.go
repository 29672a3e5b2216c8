package plan

import (
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// list answers with the list of the API server, over which it lays the planned changes. Reflectors repeat a list for
// ever and do not return its error, so list remembers the error for Run.Start.
func (s *Server) list(q *request) (*answer, error) {
	a, err := s.laid(q)
	if err != nil || !a.ok() {
		s.fail(q, a, err)
	}
	return a, err
}

// laid returns the answer to a list. It gives the list a version of its own, by which the Server recognizes the watch
// that follows.
func (s *Server) laid(q *request) (*answer, error) {
	chosen, err := q.selection()
	if err != nil {
		return refuse(apierrors.NewBadRequest(err.Error())), nil
	}
	a, err := q.forward(q.Method, q.URL, nil)
	if err != nil || !a.ok() {
		return a, err
	}
	live := &metav1.List{} // its items stay encoded, because unstructured objects take many times the memory
	if err := json.Unmarshal(a.body, live); err != nil {
		return nil, fmt.Errorf("decoding the list of the API server: %w", err)
	}
	a.body = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version == 0 {
		s.begin(live.ResourceVersion)
	}
	s.keep(q)
	if kind := strings.TrimSuffix(live.Kind, "List"); kind != "" && kind != partialKind {
		s.kinds[chosen.resource] = q.Resource.GroupVersion().WithKind(kind)
	}
	if err := s.lay(chosen, live); err != nil {
		return nil, err
	}
	live.ResourceVersion = s.nextVersion()
	s.lists[live.ResourceVersion] = chosen
	a.body, err = json.Marshal(live)
	return a, err
}

// lay lays the planned changes over a list, and remembers the objects of the list. An object that the Server knows
// already stays as it is.
func (s *Server) lay(chosen selection, live *metav1.List) error {
	items := make([]runtime.RawExtension, 0, len(live.Items))
	for _, encoded := range live.Items {
		var item metav1.PartialObjectMetadata
		if err := json.Unmarshal(encoded.Raw, &item); err != nil {
			return fmt.Errorf("decoding an item of the list of the API server: %w", err)
		}
		at := ref{chosen.resource, item.Namespace, item.Name}
		if s.objects[at] == nil {
			s.objects[at] = unchanged(&item)
		}
		if s.objects[at].isUnchanged() {
			items = append(items, encoded)
		}
	}
	for at, known := range s.objects {
		if at.resource != chosen.resource || !chosen.has(known.state) {
			continue
		}
		encoded, err := json.Marshal(chosen.form(known.state).Object)
		if err != nil {
			return err
		}
		items = append(items, runtime.RawExtension{Raw: encoded})
	}
	live.Items = items
	return nil
}
