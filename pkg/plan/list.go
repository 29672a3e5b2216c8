package plan

import (
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// list is a list of objects. Its items stay encoded, because unstructured objects take many times the memory.
type list struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metav1.ListMeta   `json:"metadata"`
	Items      []json.RawMessage `json:"items"`
	// known is what the Server needs to know of each item.
	known []item
}

func (l *list) decode(text []byte) error {
	if err := json.Unmarshal(text, l); err != nil {
		return fmt.Errorf("decoding a list of the API server: %w", err)
	}
	l.known = make([]item, len(l.Items))
	for i := range l.Items {
		if err := json.Unmarshal(l.Items[i], &l.known[i]); err != nil {
			return fmt.Errorf("decoding an item of a list of the API server: %w", err)
		}
	}
	return nil
}

// item is what the Server needs to know of an item of a list.
type item struct {
	Metadata struct {
		Namespace         string                  `json:"namespace"`
		Name              string                  `json:"name"`
		UID               types.UID               `json:"uid"`
		ResourceVersion   string                  `json:"resourceVersion"`
		Labels            map[string]string       `json:"labels"`
		OwnerReferences   []metav1.OwnerReference `json:"ownerReferences"`
		DeletionTimestamp *metav1.Time            `json:"deletionTimestamp"`
	} `json:"metadata"`
}

func (i *item) object() *object {
	m := i.Metadata
	return &object{uid: m.UID, labels: m.Labels, owners: m.OwnerReferences, stored: m.ResourceVersion, deleting: m.DeletionTimestamp != nil}
}

// list answers with the list of the API server, over which it lays the planned changes. It gives the list a version of
// its own, by which the watch that follows is recognized.
func (s *Server) list(q *request) (*answer, error) {
	chosen, err := q.selection()
	if err != nil {
		return refuse(apierrors.NewBadRequest(err.Error())), nil
	}
	a, err := q.forward(q.Method, q.URL, nil)
	if err != nil || !a.ok() {
		s.fail(q, a, err)
		return a, err
	}
	live := &list{}
	if err := live.decode(a.body); err != nil {
		s.fail(q, a, err)
		return nil, err
	}
	a.body = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version == 0 {
		s.begin(live.Metadata.ResourceVersion)
	}
	s.keep(q)
	if kind := strings.TrimSuffix(live.Kind, "List"); kind != "" && kind != partialKind {
		s.kinds[chosen.resource] = q.Resource.GroupVersion().WithKind(kind)
	}
	if err := s.lay(chosen, live); err != nil {
		return nil, err
	}
	version := s.nextVersion()
	s.lists[version] = chosen
	live.Metadata.ResourceVersion = version
	a.body, err = json.Marshal(live)
	return a, err
}

// lay lays the planned changes over a list, and remembers the objects of the list. An object that the Server knows
// already stays as it is.
func (s *Server) lay(chosen selection, live *list) error {
	items := make([]json.RawMessage, 0, len(live.Items))
	for i, encoded := range live.Items {
		at := ref{chosen.resource, live.known[i].Metadata.Namespace, live.known[i].Metadata.Name}
		if s.objects[at] == nil {
			s.objects[at] = live.known[i].object()
		}
		if known := s.objects[at]; !known.gone && known.state == nil {
			items = append(items, encoded)
		}
	}
	for at, known := range s.objects {
		if at.resource != chosen.resource || known.state == nil || !chosen.has(known.state) {
			continue
		}
		encoded, err := json.Marshal(chosen.form(known.state).Object)
		if err != nil {
			return err
		}
		items = append(items, encoded)
	}
	live.Items = items
	return nil
}
