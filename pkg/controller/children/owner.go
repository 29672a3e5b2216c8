package children

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/controller"
)

// Reasons of conditions.
const (
	reasonNameConflict = "NameConflict"
	reasonTerminating  = "Terminating"
)

const (
	// conflictRecheck is how often an owner is reconciled while the name of a child is taken. The object
	// that has the name is not watched.
	conflictRecheck = 30 * time.Second
	// recheck is how often an owner is reconciled while the object with the name is being deleted.
	recheck = 5 * time.Second
)

// Owner is the object that owns children.
type Owner struct {
	controller.Object
	// Kind is the API version and kind, which cached objects lack.
	Kind schema.GroupVersionKind
	// Live, if it is set, reads the owner from the API server. It is called before a child without
	// an owner reference gets it back, because an owner that is being deleted may have orphaned it;
	// before a child is created for an owner that was reconciled before, because garbage collection
	// may be deleting its children; and before a child is created that is never garbage-collected.
	// With Once it costs at most one request for each reconcile.
	Live func(ctx context.Context) (metav1.Object, error)
	// Confirm, if it is set, is called before an existing child is changed or deleted. An error
	// prevents the write. Confirm checks that the owner has not changed, because a precondition on
	// the child cannot check that.
	Confirm func(ctx context.Context) error
}

// Once returns a function that calls read once and returns its result each time (as in
// k8s.io/kubernetes/pkg/controller, BaseControllerRefManager.CanAdopt).
func Once(read func(ctx context.Context) (metav1.Object, error)) func(ctx context.Context) (metav1.Object, error) {
	var once sync.Once
	var live metav1.Object
	var err error
	return func(ctx context.Context) (metav1.Object, error) {
		once.Do(func() { live, err = read(ctx) })
		return live, err
	}
}

// Recheck returns AwaitDeletion if the owner is gone, was replaced or is being deleted. The cache may not
// have observed that yet. before describes the next step in errors. (As in
// k8s.io/kubernetes/pkg/controller, RecheckDeletionTimestamp.)
func (o Owner) Recheck(ctx context.Context, before string) error {
	if o.Live == nil {
		return nil
	}
	live, err := o.Live(ctx)
	if apierrors.IsNotFound(err) {
		return controller.AwaitDeletion()
	}
	if err != nil {
		return fmt.Errorf("reading %s %s before %s: %w", o.Kind.Kind, o.key(), before, err)
	}
	if live.GetUID() != o.GetUID() || live.GetDeletionTimestamp() != nil {
		return controller.AwaitDeletion()
	}
	return nil
}

// getsChild is the argument of Recheck before a child is created or gets its owner reference back.
const getsChild = "one of its children is created"

// Seen reports whether the owner was reconciled before.
func (o Owner) Seen() bool { return *o.StatusObservedGeneration() > 0 }

// ChildOwner implements Scope.
func (o Owner) ChildOwner() Owner { return o }

func (o Owner) key() controller.Key {
	return controller.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Owns reports whether child belongs to the owner: the owner controls it, or nobody does and its
// record has the owner's UID, because somebody removed the reference.
func (o Owner) Owns(child metav1.Object) bool {
	return metav1.IsControlledBy(child, o) || o.Orphaned(child)
}

// Orphaned reports whether child belonged to the owner until the reference was removed, as a
// deletion with --cascade=orphan does.
func (o Owner) Orphaned(child metav1.Object) bool {
	return metav1.GetControllerOfNoCopy(child) == nil && recordedOwner(child) == o.GetUID()
}

// Taken returns the error for an object that has the name of a child and belongs to somebody else:
// Stalled with reason NameConflict, or WaitFor if the object is being deleted or belongs to an
// earlier owner of the same name.
func (o Owner) Taken(kind string, live metav1.Object) error {
	ref := metav1.GetControllerOfNoCopy(live)
	if live.GetDeletionTimestamp() != nil || ref != nil && o.isNamed(ref) {
		return controller.WaitFor(reasonTerminating,
			fmt.Sprintf("%s %s of an earlier %s of this name is still being deleted.", kind, live.GetName(), o.Kind.Kind), recheck)
	}
	whose := "nobody"
	if ref != nil {
		whose = ref.Kind + " " + ref.Name
	}
	return controller.Stalled(controller.WithReason(reasonNameConflict, fmt.Errorf(
		"the name is taken by %s %s/%s, which belongs to %s; delete or rename that %s, or give this %s another name",
		kind, live.GetNamespace(), live.GetName(), whose, kind, o.Kind.Kind)), conflictRecheck)
}

// madeForAnnotation on a child that outlives its owner has the kind and name of the owner, for example
// Database/shop or Cache.cache.example.com/shop.
const madeForAnnotation = controller.AnnotationDomain + "/made-for"

// mark returns the value of madeForAnnotation. The kinds of Windlass have no group in it, as in earlier
// versions.
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

// owns reports whether child belongs to owner. A child that outlives its owner belongs to it if nobody
// controls the child, and madeForAnnotation on the child or in its record names the owner.
func (t *Type[T]) owns(owner Owner, child T) bool {
	if !t.Outlives {
		return owner.Owns(child)
	}
	marked := func(object metav1.Object) bool { return object.GetAnnotations()[madeForAnnotation] == owner.mark() }
	return metav1.GetControllerOfNoCopy(child) == nil && (marked(child) || marked(recordOn(child)))
}

// owned returns a copy of child with the label, and with the owner reference or madeForAnnotation.
func (t *Type[T]) owned(owner Owner, child T) T {
	child = child.DeepCopyObject().(T)
	child.SetLabels(with(child.GetLabels(), controller.ManagedByLabel, cmp.Or(t.ManagedBy, controller.ManagedByWindlass)))
	if t.Outlives {
		child.SetAnnotations(with(child.GetAnnotations(), madeForAnnotation, owner.mark()))
	} else {
		child.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.Kind)})
	}
	return child
}

// with sets a key of m, or of a new map if m is nil, and returns the map.
func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// recordedOwner returns the UID of the owner that is in the record of a child, or "".
func recordedOwner(child metav1.Object) types.UID {
	if ref := metav1.GetControllerOfNoCopy(recordOn(child)); ref != nil {
		return ref.UID
	}
	return ""
}

// recordOn returns the metadata in the record of a child. It is empty if the record cannot be read.
func recordOn(child metav1.Object) metav1.Object {
	var record metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(child.GetAnnotations()[RecordAnnotation]), &record); err != nil {
		return &metav1.PartialObjectMetadata{}
	}
	return &record
}
