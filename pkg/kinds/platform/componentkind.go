package platform

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
)

// childKind writes the children of one kind of components.
type childKind struct {
	*children.Type[controller.Object]
}

// childKinds are the kinds of components.
type childKinds []childKind

// named returns the kind with the given name. found is false if there is none.
func (k childKinds) named(name string) (kind childKind, found bool) {
	i := slices.IndexFunc(k, func(kind childKind) bool { return kind.Kind == name })
	if i < 0 {
		return kind, false
	}
	return k[i], true
}

// newKinds returns all kinds of components.
func newKinds(
	client versioned.Interface, in externalversions.SharedInformerFactory, tracker *controller.Tracker,
) childKinds {
	windlass, caches := client.WindlassV1alpha1(), in.Windlass().V1alpha1()
	return childKinds{
		newKind[*v1alpha1.App]("App", caches.Apps().Informer(), tracker, windlass.Apps),
		newKind[*v1alpha1.Database]("Database", caches.Databases().Informer(), tracker, windlass.Databases),
		newKind[*v1alpha1.ExternalDatabase]("ExternalDatabase", caches.ExternalDatabases().Informer(), tracker,
			windlass.ExternalDatabases),
		newKind[*cnatv1.At]("At", in.Cnat().V1().Ats().Informer(), tracker, client.CnatV1().Ats),
	}
}

// newKind returns the kind with the given name. informer and clientFor access its objects.
func newKind[T controller.Object, C children.Client[T]](
	name string, informer cache.SharedIndexInformer, tracker *controller.Tracker, clientFor func(namespace string) C,
) childKind {
	written := children.Resource[controller.Object]{
		Kind: name, Custom: true, Informer: informer, Client: func(namespace string) children.Client[controller.Object] {
			return anyClient[T]{clientFor(namespace)}
		},
	}.Type(tracker)
	written.Keep = keepStarted
	return childKind{&written}
}

// anyClient adapts a client of the API type T to children.Client[controller.Object].
type anyClient[T controller.Object] struct{ children.Client[T] }

func (c anyClient[T]) Get(ctx context.Context, name string, opts metav1.GetOptions) (controller.Object, error) {
	return c.Client.Get(ctx, name, opts)
}

func (c anyClient[T]) Create(
	ctx context.Context, object controller.Object, opts metav1.CreateOptions,
) (controller.Object, error) {
	child, ok := object.(T)
	if !ok {
		return nil, fmt.Errorf("unexpected type %T of a child, instead of %T", object, child)
	}
	return c.Client.Create(ctx, child, opts)
}

func (c anyClient[T]) Patch(
	ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string,
) (controller.Object, error) {
	return c.Client.Patch(ctx, name, pt, data, opts, subresources...)
}

// cached returns the cached object with the name of a child, or nil.
func (k childKind) cached(namespace, name string) (controller.Object, error) {
	child, err := k.Cache.Get(namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s/%s from the cache: %w", k.Kind, namespace, name, err)
	}
	return child, nil
}

// live reads the object with the name of a child from the API server. It returns nil if there is none.
func (k childKind) live(ctx context.Context, namespace, name string) (controller.Object, error) {
	child, err := k.Client(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s/%s: %w", k.Kind, namespace, name, err)
	}
	return child, nil
}

// kindOf returns the name of a component's kind. It is empty for a component without a kind, which the
// API server rejects.
func kindOf(c *v1alpha1.PlatformComponent) string {
	switch {
	case c.App != nil:
		return "App"
	case c.Database != nil:
		return "Database"
	case c.ExternalDatabase != nil:
		return "ExternalDatabase"
	case c.At != nil:
		return "At"
	}
	return ""
}

// desiredChild returns the child of a component, which has a kind.
func desiredChild(platform *v1alpha1.Platform, c *v1alpha1.PlatformComponent) controller.Object {
	meta := desiredMeta(platform, c)
	switch {
	case c.App != nil:
		return &v1alpha1.App{ObjectMeta: meta, Spec: *c.App}
	case c.Database != nil:
		return &v1alpha1.Database{ObjectMeta: meta, Spec: *c.Database}
	case c.ExternalDatabase != nil:
		return &v1alpha1.ExternalDatabase{ObjectMeta: meta, Spec: *c.ExternalDatabase}
	}
	return desiredTask(meta, c)
}

// phaseOf returns the phase of a child.
func phaseOf(child controller.Object) string {
	switch child := child.(type) {
	case *v1alpha1.App:
		return string(child.Status.Phase)
	case *v1alpha1.Database:
		return string(child.Status.Phase)
	case *v1alpha1.ExternalDatabase:
		return string(child.Status.Phase)
	case *cnatv1.At:
		return string(child.Status.Phase)
	}
	return ""
}
