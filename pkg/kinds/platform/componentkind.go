package platform

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
)

// kind gives access to the objects of one kind of components.
type kind interface {
	// name returns the kind, for example App.
	name() string
	// get returns the cached object with the name of a child, or nil.
	get(namespace, name string) (controller.Object, error)
	// ensure creates or updates the child of a component, and returns it; see children.Type.Ensure.
	ensure(
		ctx context.Context, owner children.Owner, meta metav1.ObjectMeta, c *v1alpha1.PlatformComponent,
	) (controller.Object, error)
	// update is ensure for a child that existed when the reconcile began: it does not create the child again.
	update(
		ctx context.Context, owner children.Owner, meta metav1.ObjectMeta, c *v1alpha1.PlatformComponent,
	) (controller.Object, error)
	// remove deletes a child; see children.Type.Remove.
	remove(ctx context.Context, owner children.Owner, child controller.Object) error
	// reclaim gives a released child its owner reference back.
	reclaim(ctx context.Context, owner children.Owner, child controller.Object) (controller.Object, error)
	// live reads the object with the name of a child from the API server. It returns nil if there is
	// none.
	live(ctx context.Context, namespace, name string) (controller.Object, error)
	// release removes the owner reference from a child, and returns the child; see children.Type.Release.
	release(ctx context.Context, owner children.Owner, child controller.Object) (controller.Object, error)
	// isRemoved reports whether this process has deleted a child, which the cache may still have.
	isRemoved(owner children.Owner, child controller.Object) bool
	// phase returns the phase of a child.
	phase(child controller.Object) string
	// cache returns the informer of the kind.
	cache() cache.SharedIndexInformer
}

// typed implements kind for the API type T.
type typed[T controller.Object] struct {
	children.Type[T]
	// build returns the child of a component of this kind.
	build   func(meta metav1.ObjectMeta, c *v1alpha1.PlatformComponent) T
	phaseOf func(T) string
}

// newKind returns the kind with the given name. client and informer access its objects.
func newKind[T controller.Object](
	name string, informer cache.SharedIndexInformer, tracker *controller.Tracker,
	client func(namespace string) children.Client[T],
	build func(metav1.ObjectMeta, *v1alpha1.PlatformComponent) T, phase func(T) string,
) *typed[T] {
	k := &typed[T]{children.Resource[T]{Kind: name, Informer: informer, Client: client}.Type(tracker), build, phase}
	k.Custom = true
	return k
}

func (k *typed[T]) name() string                     { return k.Kind }
func (k *typed[T]) cache() cache.SharedIndexInformer { return k.Informer }
func (k *typed[T]) phase(child controller.Object) string {
	if own, ok := child.(T); ok {
		return k.phaseOf(own)
	}
	return ""
}

func (k *typed[T]) isRemoved(owner children.Owner, child controller.Object) bool {
	own, ok := child.(T)
	return ok && k.IsRemoved(owner, own)
}

// own converts an object to a T.
func (k *typed[T]) own(object any) (T, error) {
	child, ok := object.(T)
	if !ok {
		return child, fmt.Errorf("unexpected type %T of a child of kind %s", object, k.Kind)
	}
	return child, nil
}

func (k *typed[T]) get(namespace, name string) (controller.Object, error) {
	child, err := k.Cache.Get(namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s/%s from the cache: %w", k.Kind, namespace, name, err)
	}
	return child, nil
}

func (k *typed[T]) ensure(
	ctx context.Context, owner children.Owner, meta metav1.ObjectMeta, c *v1alpha1.PlatformComponent,
) (controller.Object, error) {
	child, err := k.Ensure(ctx, owner, k.build(meta, c), nil)
	if err != nil {
		return nil, err
	}
	return child, nil
}

func (k *typed[T]) update(
	ctx context.Context, owner children.Owner, meta metav1.ObjectMeta, c *v1alpha1.PlatformComponent,
) (controller.Object, error) {
	child, err := k.Update(ctx, owner, k.build(meta, c))
	if err != nil {
		return nil, err
	}
	return child, nil
}

func (k *typed[T]) remove(ctx context.Context, owner children.Owner, child controller.Object) error {
	own, err := k.own(child)
	if err != nil {
		return err
	}
	return k.Remove(ctx, owner, own)
}

func (k *typed[T]) release(
	ctx context.Context, owner children.Owner, child controller.Object,
) (controller.Object, error) {
	return k.refer(ctx, owner, child, k.Release)
}

func (k *typed[T]) reclaim(
	ctx context.Context, owner children.Owner, child controller.Object,
) (controller.Object, error) {
	return k.refer(ctx, owner, child, k.Reclaim)
}

func (k *typed[T]) refer(
	ctx context.Context, owner children.Owner, child controller.Object, change func(
		context.Context, children.Owner, T,
	) (T, error),
) (controller.Object, error) {
	own, err := k.own(child)
	if err != nil {
		return nil, err
	}
	changed, err := change(ctx, owner, own)
	if err != nil {
		return nil, err
	}
	return changed, nil
}

func (k *typed[T]) live(ctx context.Context, namespace, name string) (controller.Object, error) {
	child, err := k.Client(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s/%s: %w", k.Kind, namespace, name, err)
	}
	return child, nil
}
