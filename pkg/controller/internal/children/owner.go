package children

import (
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
	// conflictRecheck is how often an object that is not ours, and of which no event
	// tells, is looked at again.
	conflictRecheck = 30 * time.Second
	// recheck is how often one is that goes by itself.
	recheck = 5 * time.Second
)

// Owner is the object that owns.
type Owner struct {
	controller.Object
	// Kind is its type, which the cached object does not tell.
	Kind schema.GroupVersionKind
	// Live, if it is set, reads the owner from the API server: before a child gets its
	// owner back that has none, since an owner that is being deleted may have orphaned it;
	// before one is made for an owner that was seen to before, since garbage collection
	// may be at work, and each would undo what the other does for as long as the cache is
	// behind; and before one is made that nobody would collect. Once makes it one request
	// for each pass.
	Live func(ctx context.Context) (metav1.Object, error)
	// Confirm, if it is set, is asked before a child that is there is changed or deleted.
	// Its error ends the attempt: the owner may say something else by now, which no
	// precondition on a child can tell.
	Confirm func(ctx context.Context) error
}

// Once returns a read whose first answer is that of all that follow (as in
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

// Recheck returns AwaitDeletion if the owner is gone, another or being deleted, though the cache
// does not know that yet (as in k8s.io/kubernetes/pkg/controller, RecheckDeletionTimestamp).
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

// getsChild is what an owner is looked at before, in the words of an error.
const getsChild = "it gets a child again"

// Seen tells whether a pass has seen to the owner before.
func (o Owner) Seen() bool { return *o.StatusObservedGeneration() > 0 }

func (o Owner) key() controller.Key {
	return controller.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Owns tells whether a child is this owner's. It is if the owner controls it, or if
// nobody does and its record says that this owner made it: then somebody has taken
// the reference away.
func (o Owner) Owns(child metav1.Object) bool {
	return metav1.IsControlledBy(child, o) || o.Orphaned(child)
}

// Orphaned tells whether a child was this owner's until somebody took the reference
// away: an owner that is deleted with --cascade=orphan leaves such.
func (o Owner) Orphaned(child metav1.Object) bool {
	return metav1.GetControllerOfNoCopy(child) == nil && recordedOwner(child) == o.GetUID()
}

// Taken is the error for an object that has a child's name and is not this owner's:
// Stalled with reason NameConflict, or WaitFor one that goes by itself, such as that
// of an earlier owner of the same name.
func (o Owner) Taken(kind string, live metav1.Object) error {
	ref := metav1.GetControllerOfNoCopy(live)
	if live.GetDeletionTimestamp() != nil || ref != nil && ref.Kind == o.Kind.Kind && ref.Name == o.GetName() {
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

// madeForAnnotation on a child that outlives its owner says whom it was made for, as
// Kind/name.
const madeForAnnotation = "windlass.dev/made-for"

func (o Owner) mark() string { return o.Kind.Kind + "/" + o.GetName() }

// owns tells whether a child is this owner's. One that outlives its owners is if
// nobody controls it, and its mark or its record says so.
func (t *Type[T]) owns(owner Owner, child T) bool {
	if !t.Outlives {
		return owner.Owns(child)
	}
	marked := func(object metav1.Object) bool { return object.GetAnnotations()[madeForAnnotation] == owner.mark() }
	return metav1.GetControllerOfNoCopy(child) == nil && (marked(child) || marked(recordOn(child)))
}

// owned is a copy of a child with what every child bears.
func (t *Type[T]) owned(owner Owner, child T) T {
	child = child.DeepCopyObject().(T)
	child.SetLabels(with(child.GetLabels(), controller.ManagedByLabel, controller.ManagedByWindlass))
	if t.Outlives {
		child.SetAnnotations(with(child.GetAnnotations(), madeForAnnotation, owner.mark()))
	} else {
		child.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.Kind)})
	}
	return child
}

// with is a map, the given one unless that is nil, in which key has this value.
func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// recordedOwner is the UID of the owner for which a child was last written.
func recordedOwner(child metav1.Object) types.UID {
	if ref := metav1.GetControllerOfNoCopy(recordOn(child)); ref != nil {
		return ref.UID
	}
	return ""
}

// recordOn is the metadata in a child's record. One that somebody has broken says
// nothing.
func recordOn(child metav1.Object) metav1.Object {
	var record metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(child.GetAnnotations()[RecordAnnotation]), &record); err != nil {
		return &metav1.PartialObjectMetadata{}
	}
	return &record
}
