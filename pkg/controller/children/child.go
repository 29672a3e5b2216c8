package children

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
)

// Resource gives access to the objects of one API type.
type Resource[C Object] struct {
	// Kind is the kind of the objects, for example Deployment.
	Kind string
	// ManagedBy is the value of the label controller.ManagedByLabel. It defaults to
	// controller.ManagedByWindlass.
	ManagedBy string
	// Informer fills the cache with the objects that have the label.
	Informer cache.SharedIndexInformer
	// Client returns the client for a namespace.
	Client func(namespace string) Client[C]
}

// Type returns the Type that writes children of this resource. tracker records every write.
func (r Resource[C]) Type(tracker *controller.Tracker) Type[C] {
	return Type[C]{Kind: r.Kind, ManagedBy: r.ManagedBy, Informer: r.Informer, Cache: CacheOf[C](r.Informer.GetStore()), Client: r.Client, Tracker: tracker}
}

// Scope is the state of one reconcile of an owner. The children are derived from it. A type that embeds
// Owner is a Scope.
type Scope interface {
	// ChildOwner returns the owner of the children.
	ChildOwner() Owner
}

// Declaration is a Child of type C. The child has the name and namespace of its owner.
type Declaration[S Scope, C Object] struct {
	// Resource gives access to the objects of the child's type.
	Resource Resource[C]
	// Needs are the names of children that are declared before this one: see Step. The name of a Declaration is the
	// Kind of its Resource.
	Needs []string
	// When reports whether the child is desired. Nil means always.
	When func(s S) bool
	// Desired returns the child. The function may leave name and namespace of the child empty. It is
	// called only if the child is desired.
	Desired func(s S) C
	// Initially, if it is set, changes the object that Desired returned, before the child is created.
	Initially func(s S, desired C)
	// Keep, if it is set, copies the values that the child must not lose from live into desired.
	Keep func(s S, desired, live C)
	// Hold, if it is set, reports whether the child must not be changed for now.
	Hold func(s S) bool
	// Applied, if it is set, is called with the child after Apply succeeded. It is not called if the child
	// is held and missing, or is neither held nor desired.
	Applied func(s S, live C)
	// Yielded are paths of fields that another controller may take over: see Type.
	Yielded [][]string

	owned Type[C] // set by Bind
}

// Owns declares a child that is always desired.
func Owns[S Scope, C Object](resource Resource[C], desired func(s S) C) *Declaration[S, C] {
	return &Declaration[S, C]{Resource: resource, Desired: desired}
}

// Bind implements Child.
func (d *Declaration[S, C]) Bind(tracker *controller.Tracker) Step[S] {
	d.owned = d.Resource.Type(tracker)
	d.owned.Yielded = d.Yielded
	return Step[S]{
		Name: d.Resource.Kind, Needs: d.Needs, Owned: d.Resource.Informer, Apply: d.apply,
		Deletes: func(s S) bool { return !d.desired(s) },
	}
}

func (d *Declaration[S, C]) desired(s S) bool { return d.When == nil || d.When(s) }

// apply creates or updates the child if it is desired, and deletes it if it is not.
func (d *Declaration[S, C]) apply(ctx context.Context, s S) error {
	owner := s.ChildOwner()
	if d.Hold != nil && d.Hold(s) {
		live, err := d.owned.Cache.Get(owner.GetNamespace(), owner.GetName())
		if apierrors.IsNotFound(err) {
			return nil
		}
		return d.applied(s, live, err)
	}
	if !d.desired(s) {
		return d.owned.Prune(ctx, owner, owner.GetName())
	}
	of := d.owned
	var initially func(C)
	if d.Keep != nil {
		of.Keep = func(desired, live C) { d.Keep(s, desired, live) }
	}
	if d.Initially != nil {
		initially = func(desired C) { d.Initially(s, desired) }
	}
	desired := d.Desired(s)
	if name := desired.GetName(); name != "" && name != owner.GetName() {
		err := fmt.Errorf("the operator has a bug: the desired %s has the name %s, "+
			"but a declared child must have the name of its owner", d.Resource.Kind, name)
		return controller.Stalled(err, 0)
	}
	desired.SetNamespace(owner.GetNamespace())
	desired.SetName(owner.GetName())
	live, err := of.Ensure(ctx, owner, desired, initially)
	return d.applied(s, live, err)
}

func (d *Declaration[S, C]) applied(s S, live C, err error) error {
	if err == nil && d.Applied != nil {
		d.Applied(s, live)
	}
	return err
}
