package plan

import (
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// ref identifies an object.
type ref struct {
	resource        schema.GroupResource
	namespace, name string
}

// object is what the Server knows about an object.
type object struct {
	// Object is the metadata after the planned writes. If the object was only listed, the annotations are missing.
	metav1.Object
	// made is true if only planned writes create the object.
	made bool
	// state is the object after the planned writes. It is nil if no planned write has changed the object, or if planned
	// writes have deleted the object.
	state *unstructured.Unstructured
	// gone is true if planned writes have deleted the object.
	gone bool
}

// change is a change of an object by a planned write.
type change struct {
	version int64
	of      ref
	kind    schema.GroupVersionKind
	// before is nil if the write creates the object, and after is nil if it deletes the object.
	before metav1.Object
	after  *unstructured.Unstructured
}

// isUnchanged reports whether no planned write has changed the object.
func (o *object) isUnchanged() bool { return o.state == nil && !o.gone }

// set records the next state of an object, or its deletion if state is nil. The state gets the next resource version.
func (s *Server) set(at ref, state *unstructured.Unstructured) {
	o := s.objects[at]
	if o == nil {
		o = &object{made: true, gone: true}
		s.objects[at] = o
	}
	version := s.nextVersion("")
	c := change{version: s.version, of: at, kind: s.kinds[at.resource], after: state}
	if !o.gone {
		c.before = o.Object
	}
	if state != nil {
		state.SetResourceVersion(version)
		o.Object = state
	} else {
		s.removed.Insert(o.GetUID())
		o.made = true // the next write of this name creates a new object
	}
	o.state, o.gone = state, state == nil
	s.changes = append(s.changes, c)
	close(s.grown)
	s.grown = make(chan struct{})
}

// selection says which objects a list or a watch has, and in which form.
type selection struct {
	resource  schema.GroupResource
	namespace string
	name      string
	labels    labels.Selector
	// partial is true if the client requested only the metadata.
	partial bool
}

var partialKind = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")

// selection returns the selection of a list or a watch. It returns an error for a field selector other than
// metadata.name.
func (q *request) selection() (chosen selection, err error) {
	query := q.URL.Query()
	chosen = selection{resource: q.Resource.GroupResource(), namespace: q.Namespace, name: q.Name, partial: q.isPartial()}
	if chosen.labels, err = labels.Parse(query.Get("labelSelector")); err != nil {
		return chosen, fmt.Errorf("parsing the label selector: %w", err)
	}
	field, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return chosen, fmt.Errorf("parsing the field selector: %w", err)
	}
	for _, r := range field.Requirements() {
		if r.Field != metav1.ObjectNameField {
			return chosen, fmt.Errorf("a plan does not support the field selector %s", field)
		}
		chosen.name = r.Value
	}
	return chosen, nil
}

func (l selection) has(obj metav1.Object) bool {
	return (l.namespace == "" || l.namespace == obj.GetNamespace()) && (l.name == "" || l.name == obj.GetName()) &&
		l.labels.Matches(labels.Set(obj.GetLabels()))
}

// form returns the object in the form that the client requested.
func (l selection) form(obj *unstructured.Unstructured) runtime.Object {
	if !l.partial {
		return obj
	}
	return metadataOf(obj, partialKind)
}

func metadataOf(obj metav1.Object, kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	partial := meta.AsPartialObjectMetadata(obj)
	partial.SetGroupVersionKind(kind)
	return partial
}

// eventOf returns the type of the event of a change for a watch with this selection, or "" if the watch gets none.
func (l selection) eventOf(c change) watch.EventType {
	was, is := c.before != nil && l.has(c.before), c.after != nil && l.has(c.after)
	switch {
	case c.of.resource != l.resource:
		return ""
	case is && !was:
		return watch.Added
	case is:
		return watch.Modified
	case was:
		return watch.Deleted
	}
	return ""
}

// encode returns the event of a change. The event of a deletion has only the metadata of the object.
func (l selection) encode(event watch.EventType, c change) ([]byte, error) {
	var obj runtime.Object
	if event == watch.Deleted {
		kind := c.kind
		if l.partial {
			kind = partialKind
		}
		deleted := metadataOf(c.before, kind)
		deleted.ResourceVersion = strconv.FormatInt(c.version, 10)
		obj = deleted
	} else {
		obj = l.form(c.after)
	}
	return json.Marshal(metav1.WatchEvent{Type: string(event), Object: runtime.RawExtension{Object: obj}})
}
