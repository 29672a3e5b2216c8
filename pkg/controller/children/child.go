package children

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Custom is true if the type is a custom resource. The spec of its objects belongs to the owner as a whole, like the
	// data of a ConfigMap, and is not recorded.
	Custom bool
	// Provider names what installs the type, for example Gateway API. Empty means that every cluster has the type.
	// Otherwise, the informer must be empty while the cluster lacks the type: see package optional.
	Provider string
}

// Type returns the Type that writes children of this resource. tracker records every write.
func (r Resource[C]) Type(tracker *controller.Tracker) Type[C] {
	return Type[C]{Resource: r, Cache: CacheOf[C](r.Informer.GetIndexer()), Tracker: tracker}
}

// Scope is the state of one reconcile of an owner. The children are derived from it. A type that embeds
// Owner is a Scope.
type Scope interface {
	// ChildOwner returns the owner of the children.
	ChildOwner() Owner
}

// Declaration is a Child of type C. The watch, creation, update and deletion follow from the declaration. Resource and
// Desired are required. The name of the Declaration is the Kind of its Resource, followed by Suffix.
type Declaration[S Scope, C Object] struct {
	// Resource gives access to the objects of the child's type.
	Resource Resource[C]
	// Suffix is the end of the name of the child, after the name of its owner, for example "-settings". Children of one
	// type have different suffixes.
	Suffix string
	// Needs are the names of children that are declared before this one: see Step.
	Needs []string
	// When reports whether the child is desired. Nil means always.
	When func(s S) bool
	// Desired returns the child without name and namespace. It is called only if the child is desired. The data of an
	// immutable ConfigMap is only set when the child is created.
	Desired func(s S) C
	// Initially, if it is set, changes the object that Desired returned, before the child is created.
	Initially func(s S, desired C)
	// Keep, if it is set, copies the values that the child must not lose from live into desired.
	Keep func(s S, desired, live C)
	// Adopt, if it is set, may change the desired child before live is adopted, or prevent the adoption: see Type.
	Adopt func(ctx context.Context, s S, desired, live C, try func(desired C) (C, error)) error
	// Hold, if it is set, reports whether the child must not be created, changed or deleted for now.
	Hold func(s S) bool
	// Applied, if it is set, is called with the child after it was applied, and with a live child that Hold keeps
	// unchanged. It is not called for a child that is missing or that is not desired.
	Applied func(s S, live C)
	// Yielded are paths of fields that another controller may take over: see Type.
	Yielded [][]string
	// Outlives is true if the child stays when its owner is deleted: see Type.
	Outlives bool

	writer Type[C] // set by Bind
}

// Owns declares a child that is always desired.
func Owns[S Scope, C Object](resource Resource[C], desired func(s S) C) *Declaration[S, C] {
	return &Declaration[S, C]{Resource: resource, Desired: desired}
}

// Type returns the Type that writes the child, for other steps and for a finalizer. Call Type after Declare.
func (d *Declaration[S, C]) Type() *Type[C] { return &d.writer }

// Bind implements Child.
func (d *Declaration[S, C]) Bind(tracker *controller.Tracker) Step[S] {
	step := Step[S]{Name: d.Resource.Kind + d.Suffix, Needs: d.Needs}
	if d.Resource.Informer == nil || d.Resource.Client == nil || d.Desired == nil {
		return step // Declare returns an error
	}
	d.writer = d.Resource.Type(tracker)
	d.writer.Yielded, d.writer.Outlives = d.Yielded, d.Outlives
	step.Deletes = func(s S) bool { return d.When != nil && !d.When(s) }
	step.Apply = d.apply
	if !d.Outlives {
		step.Owned = d.Resource.Informer
		return step
	}
	step.References = []controller.Reference{{Informer: d.Resource.Informer, Referrers: d.ownersByName}}
	return step
}

// ownersByName returns the key of the owner whose child would have the name of object. The owner of a child without an
// owner reference, or of another object with the name of a child, can only be found by this name.
func (d *Declaration[S, C]) ownersByName(object metav1.Object) []controller.Key {
	name, ok := strings.CutSuffix(object.GetName(), d.Suffix)
	if !ok || name == "" {
		return nil
	}
	return []controller.Key{{Namespace: object.GetNamespace(), Name: name}}
}

// apply creates or updates the child if it is desired, and deletes it if it is not.
func (d *Declaration[S, C]) apply(ctx context.Context, s S) error {
	owner := s.ChildOwner()
	namespace, name := owner.GetNamespace(), owner.GetName()+d.Suffix
	if d.Hold != nil && d.Hold(s) {
		live, err := d.writer.Cache.Get(namespace, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return d.applied(s, live, err)
	}
	if d.When != nil && !d.When(s) {
		return d.writer.Prune(ctx, owner, name)
	}
	desired := d.Desired(s)
	of, initially := d.prepared(s, desired)
	live, err := of.Ensure(ctx, owner, desired, initially)
	return d.applied(s, live, err)
}

// Try creates or updates the child as a dry run: see Type.Try. When and Hold have no effect.
func (d *Declaration[S, C]) Try(ctx context.Context, s S) error {
	desired := d.Desired(s)
	of, initially := d.prepared(s, desired)
	return of.Try(ctx, s.ChildOwner(), desired, initially)
}

// prepared sets the name of the desired child. It returns the Type that writes the child, and the function that changes
// the child before it is created.
func (d *Declaration[S, C]) prepared(s S, desired C) (of Type[C], initially func(C)) {
	of = d.writer
	if d.Keep != nil {
		of.Keep = func(desired, live C) { d.Keep(s, desired, live) }
	}
	if d.Adopt != nil {
		of.Adopt = func(ctx context.Context, desired, live C, try func(C) (C, error)) error {
			return d.Adopt(ctx, s, desired, live, try)
		}
	}
	if d.Initially != nil {
		initially = func(desired C) { d.Initially(s, desired) }
	}
	desired.SetNamespace(s.ChildOwner().GetNamespace())
	desired.SetName(s.ChildOwner().GetName() + d.Suffix)
	return of, initially
}

func (d *Declaration[S, C]) applied(s S, live C, err error) error {
	if err == nil && d.Applied != nil {
		d.Applied(s, live)
	}
	return err
}
