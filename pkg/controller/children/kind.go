package children

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
)

// Kind declares a kind whose Reconcile applies children. The watches and Reconcile of the kind follow
// from the declaration. S is the state that the steps of one reconcile share.
type Kind[T controller.Object, S Scope] struct {
	// Kind is the declaration without Reconciler, Tracker and Owned, which Declare derives.
	controller.Kind[T]
	// Scope returns the scope of a reconcile of obj. owner is obj as the owner of its children.
	Scope func(obj T, owner Owner) S
	// Prepare, if it is set, reads the objects from which the children are derived. After an error no
	// child is applied.
	Prepare func(ctx context.Context, s S) error
	// Children are the children in the order in which they are applied. They have different names.
	Children []Child[S]
	// Finish sets the status, and returns the result of the reconcile. err is the error of Prepare, or of the children
	// that could not be applied. If err is not nil, the conditions already report it.
	Finish func(s S, err error) (controller.Result, error)
}

// Declare returns the declaration of the kind for the engine. It returns an error if a required field is not set, if a
// field is set that Declare derives, or if a child needs a child that is not declared before it.
func (k Kind[T, S]) Declare() (declared controller.Kind[T], err error) {
	declared = k.Kind
	switch {
	case k.Scope == nil || k.Finish == nil:
		return declared, k.invalid(errors.New("Scope or Finish is not set"))
	case declared.Reconciler != nil || declared.Tracker != nil || declared.Owned != nil:
		return declared, k.invalid(errors.New("do not set Reconciler, Tracker and Owned, which follow from the children"))
	}
	declared.Tracker = controller.NewTracker()
	r := &reconciler[T, S]{kind: k}
	declared.Reconciler = r
	for _, child := range k.Children {
		step := child.Bind(declared.Tracker)
		if r.steps, err = r.steps.add(step); err != nil {
			return declared, k.invalid(err)
		}
		if step.Owned != nil && !slices.Contains(declared.Owned, step.Owned) {
			declared.Owned = append(declared.Owned, step.Owned)
		}
		declared.References = append(declared.References, step.References...)
	}
	return declared, nil
}

func (k Kind[T, S]) invalid(why error) error {
	return fmt.Errorf("declaring kind %s: %w", k.GroupVersionKind.Kind, why)
}

// reconciler reconciles the objects of a Kind.
type reconciler[T controller.Object, S Scope] struct {
	kind  Kind[T, S]
	steps steps[S]
}

// Reconcile implements controller.Reconciler.
func (r *reconciler[T, S]) Reconcile(ctx context.Context, obj T) (controller.Result, error) {
	owner := Owner{Object: obj, Kind: r.kind.GroupVersionKind}
	owner.Live = sync.OnceValues(func() (metav1.Object, error) {
		return r.kind.Client(obj.GetNamespace()).Get(ctx, obj.GetName(), metav1.GetOptions{})
	})
	s := r.kind.Scope(obj, owner)
	var err error
	if r.kind.Prepare != nil {
		err = r.kind.Prepare(ctx, s)
	}
	if err == nil {
		err = r.steps.apply(ctx, s)
	}
	if err != nil {
		controller.Blocked(err).SetOn(obj)
	}
	return r.kind.Finish(s, err)
}
