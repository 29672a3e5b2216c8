package plan

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// ref identifies an object.
type ref struct {
	resource        schema.GroupResource
	namespace, name string
}

// object is what the Server knows of an object.
type object struct {
	uid    types.UID
	labels map[string]string
	owners []metav1.OwnerReference
	// stored is the version of the object on the API server. It is empty if only planned writes create the object.
	stored string
	// deleting is true if the deletion of the object was requested on the API server.
	deleting bool
	// state is the object after the planned writes. It is nil if there are none, or if they delete the object.
	state *unstructured.Unstructured
	// gone is true if planned writes have deleted the object.
	gone bool
}

// change is a change of an object by a planned write.
type change struct {
	version string
	of      ref
	// before is nil if the write creates the object, and after is nil if it deletes the object. Only the metadata of
	// before is complete.
	before, after *unstructured.Unstructured
}

// unchanged returns an object that no planned write has changed.
func unchanged(live metav1.Object) *object {
	return &object{
		uid: live.GetUID(), labels: live.GetLabels(), owners: live.GetOwnerReferences(), stored: live.GetResourceVersion(),
		deleting: live.GetDeletionTimestamp() != nil,
	}
}

// isUnchanged reports whether no planned write has changed the object.
func (o *object) isUnchanged() bool { return o.state == nil && !o.gone }

// set records the next state of an object, or its deletion if state is nil. The state gets the next resource version.
func (s *Server) set(at ref, state *unstructured.Unstructured) {
	o := s.objects[at]
	if o == nil {
		o = &object{}
		s.objects[at] = o
	}
	c := change{version: s.nextVersion(), of: at, before: o.former(at, s.kinds[at.resource])}
	if state != nil {
		state.SetResourceVersion(c.version)
		o.uid, o.labels, o.owners = state.GetUID(), state.GetLabels(), state.GetOwnerReferences()
		s.kinds[at.resource] = state.GroupVersionKind()
		c.after = state
	} else {
		if _, ended := s.fates[o.uid]; !ended {
			s.fates[o.uid] = removed
		}
		o.stored, o.deleting = "", false // if the object is created again, it is a new object
	}
	o.state, o.gone = state, state == nil
	s.changes = append(s.changes, c)
	s.grown.Broadcast()
}

// former returns the object before a change, or nil if there is none.
func (o *object) former(at ref, kind schema.GroupVersionKind) *unstructured.Unstructured {
	if o.state != nil || o.gone || o.uid == "" {
		return o.state
	}
	former := &unstructured.Unstructured{Object: map[string]any{}}
	former.SetGroupVersionKind(kind)
	former.SetNamespace(at.namespace)
	former.SetName(at.name)
	former.SetUID(o.uid)
	former.SetLabels(o.labels)
	former.SetOwnerReferences(o.owners)
	return former
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

const (
	partialKind    = "PartialObjectMetadata"
	partialVersion = "meta.k8s.io/v1"
)

// selection returns the selection of a list or a watch. Of the field selectors, it supports metadata.name.
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

func (l selection) has(obj *unstructured.Unstructured) bool {
	return obj != nil && (l.namespace == "" || l.namespace == obj.GetNamespace()) &&
		(l.name == "" || l.name == obj.GetName()) &&
		l.labels.Matches(labels.Set(obj.GetLabels()))
}

// form returns the object in the form that the client requested.
func (l selection) form(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if !l.partial {
		return obj
	}
	return &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": partialVersion, "kind": partialKind, "metadata": obj.Object["metadata"]},
	}
}

// event returns the event of a change for a watch with this selection. ok is false if the watch gets none.
func (l selection) event(c change) (event []byte, ok bool, err error) {
	if c.of.resource != l.resource {
		return nil, false, nil
	}
	kind, obj := "", c.after
	switch was, is := l.has(c.before), l.has(c.after); {
	case is && !was:
		kind = "ADDED"
	case is:
		kind = "MODIFIED"
	case was:
		kind, obj = "DELETED", c.before.DeepCopy()
		obj.SetResourceVersion(c.version)
	default:
		return nil, false, nil
	}
	event, err = json.Marshal(map[string]any{"type": kind, "object": l.form(obj).Object})
	return event, true, err
}
