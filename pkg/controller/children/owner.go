package children

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/controller"
)

const (
	// conflictRecheck is how often an owner is reconciled while another object has the name of a child, because that
	// object is not watched.
	conflictRecheck = 30 * time.Second
	// terminatingRecheck is how often an owner is reconciled while the object with the name of a child is being deleted.
	terminatingRecheck = 5 * time.Second
)

// Owner is the object that owns children.
type Owner struct {
	controller.Object
	// Kind is the API version and kind, which cached objects lack.
	Kind schema.GroupVersionKind
	// ChildLabels and ChildAnnotations are added to every child. A label or annotation that the child itself has takes
	// precedence.
	ChildLabels, ChildAnnotations map[string]string
	// Live, if it is set, reads the owner from the API server, to confirm that the owner is not being deleted. Live is
	// called before these writes:
	//   - The owner reference of a child is restored. The deletion of the owner may have orphaned the child.
	//   - A child is created for an owner that was already reconciled. Garbage collection may be deleting the children.
	//   - A child is created that outlives its owner.
	// With sync.OnceValues, Live costs at most one request for each reconcile (as in k8s.io/kubernetes/pkg/controller,
	// BaseControllerRefManager.CanAdopt).
	Live func() (metav1.Object, error)
	// Confirm, if it is set, is called before an existing child is changed or deleted. An error
	// prevents the write. Confirm checks that the owner has not changed, because a precondition on
	// the child cannot check that.
	Confirm func(ctx context.Context) error
}

// ConfirmNotDeleted calls Live. It returns ErrDeletionNotObserved if the owner does not exist any more, was replaced or
// is being deleted. The cache may not have observed that yet. (As in k8s.io/kubernetes/pkg/controller,
// RecheckDeletionTimestamp.)
func (o Owner) ConfirmNotDeleted() error {
	if o.Live == nil {
		return nil
	}
	live, err := o.Live()
	if apierrors.IsNotFound(err) {
		return controller.ErrDeletionNotObserved
	}
	if err != nil {
		return fmt.Errorf("reading %s %s to confirm that it is not being deleted: %w", o.Kind.Kind, o.key(), err)
	}
	if live.GetUID() != o.GetUID() || live.GetDeletionTimestamp() != nil {
		return controller.ErrDeletionNotObserved
	}
	return nil
}

// confirm calls Confirm if it is set.
func (o Owner) confirm(ctx context.Context) error {
	if o.Confirm == nil {
		return nil
	}
	return o.Confirm(ctx)
}

// Seen reports whether the owner was already reconciled, as its status says.
func (o Owner) Seen() bool { return *o.StatusObservedGeneration() > 0 }

// ChildOwner implements Scope.
func (o Owner) ChildOwner() Owner { return o }

func (o Owner) key() controller.Key {
	return controller.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Owns reports whether child belongs to the owner: the owner controls child, or child has no controlling
// owner and its record has the UID of the owner, because another client removed the owner reference.
func (o Owner) Owns(child metav1.Object) bool {
	return metav1.IsControlledBy(child, o) || o.Orphaned(child)
}

// Orphaned reports whether child belonged to the owner until the owner reference was removed, for example
// by a deletion with --cascade=orphan.
func (o Owner) Orphaned(child metav1.Object) bool {
	return metav1.GetControllerOfNoCopy(child) == nil && recordedOwner(child) == o.GetUID()
}

// Taken returns the error for an object that has the name of a child and does not belong to the owner:
// Stalled with reason NameConflict, or WaitFor if the object is being deleted or belongs to an
// earlier owner of the same name.
func (o Owner) Taken(kind string, live metav1.Object) error {
	ref := metav1.GetControllerOfNoCopy(live)
	switch {
	case live.GetDeletionTimestamp() != nil:
		return terminating(kind, live)
	case ref != nil && o.isNamed(ref):
		return messageEarlierOwner.Wait(terminatingRecheck, kind, live.GetName(), o.Kind.Kind)
	}
	whose := "nobody"
	if ref != nil {
		whose = ref.Kind + " " + ref.Name
	}
	return controller.Stalled(messageNameConflict.Error(kind, live.GetNamespace()+"/"+live.GetName(), whose,
		o.Kind.Kind), conflictRecheck)
}

// terminating returns the WaitFor error for an object that is being deleted and has the name of a child.
func terminating(kind string, live metav1.Object) error {
	return messageTerminating.Wait(terminatingRecheck, kind, live.GetName())
}

// MadeForAnnotation is an annotation of children that outlive their owner. Its value is the kind and name of
// the owner, for example Database/shop or Cache.cache.example.com/shop.
const MadeForAnnotation = controller.AnnotationDomain + "/made-for"

// UsedByAnnotation is an annotation of children that outlive their owner. Its value is the UID of the last owner that
// has applied the child. Only this owner may delete the child.
const UsedByAnnotation = controller.AnnotationDomain + "/used-by"

// mark returns the value of MadeForAnnotation. For the kinds of Windlass the value has no group.
func (o Owner) mark() string {
	if o.Kind.Group == controller.AnnotationDomain {
		return o.Kind.Kind + "/" + o.GetName()
	}
	return o.Kind.GroupKind().String() + "/" + o.GetName()
}

// isNamed reports whether ref refers to an object with the kind and name of the owner.
func (o Owner) isNamed(ref *metav1.OwnerReference) bool {
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	return kind == o.Kind.GroupKind() && ref.Name == o.GetName()
}

// owns reports whether child belongs to owner. A child that outlives its owner belongs to the owner if the
// child has no controlling owner, and MadeForAnnotation on the child or in its record names the owner.
func (t *Type[T]) owns(owner Owner, child T) bool {
	if !t.Outlives {
		return owner.Owns(child)
	}
	marked := func(object metav1.Object) bool { return object.GetAnnotations()[MadeForAnnotation] == owner.mark() }
	return metav1.GetControllerOfNoCopy(child) == nil && (marked(child) || marked(Recorded(child)))
}

// mayDelete reports whether child belongs to owner, and whether owner has applied a child that outlives it. An object
// that was never reconciled must not delete what a previous object of its name has left.
func (t *Type[T]) mayDelete(owner Owner, child T) bool {
	return t.owns(owner, child) && (!t.Outlives || child.GetAnnotations()[UsedByAnnotation] == string(owner.GetUID()))
}

// asChild returns a copy of child with ChildLabels, ChildAnnotations and ManagedByLabel, and with the owner reference
// or the annotations of a child that outlives its owner.
func (t *Type[T]) asChild(owner Owner, child T) T {
	child = child.DeepCopyObject().(T)
	child.SetLabels(join(owner.ChildLabels, child.GetLabels()))
	child.SetAnnotations(join(owner.ChildAnnotations, child.GetAnnotations()))
	child.SetLabels(with(child.GetLabels(), controller.ManagedByLabel, cmp.Or(t.ManagedBy, controller.ManagedByWindlass)))
	if t.Outlives {
		annotations := with(child.GetAnnotations(), MadeForAnnotation, owner.mark())
		child.SetAnnotations(with(annotations, UsedByAnnotation, string(owner.GetUID())))
	} else {
		child.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.Kind)})
	}
	return child
}

// join returns own with the keys that only common has.
func join(common, own map[string]string) map[string]string {
	if len(common) == 0 {
		return own
	}
	joined := maps.Clone(common)
	maps.Copy(joined, own)
	return joined
}

// with sets a key of m, or of a new map if m is nil, and returns the map.
func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// recordedOwner returns the UID of the controlling owner in the record of a child, or "".
func recordedOwner(child metav1.Object) types.UID {
	if ref := metav1.GetControllerOfNoCopy(Recorded(child)); ref != nil {
		return ref.UID
	}
	return ""
}

// Recorded returns the metadata that the owner of a child has set, from the record of the child. The metadata is empty
// if the object has no record or the record cannot be read.
func Recorded(child metav1.Object) metav1.Object {
	var record metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(child.GetAnnotations()[RecordAnnotation]), &record); err != nil {
		return &metav1.PartialObjectMetadata{}
	}
	return &record
}
