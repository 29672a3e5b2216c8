// Package platform composes the other kinds: it makes each component of a Platform an
// App, a Database, an ExternalDatabase or an At, in the order in which they depend on
// each other, lets go those that are Unmanaged, and removes what is Removed.
package platform

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/references"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
)

const (
	// recheckAfter is when a Platform is compared with its children without an event.
	recheckAfter = 10 * time.Minute
	// finalizerName holds a Platform until its components are removed.
	finalizerName = "windlass.dev/platform"
)

var groupVersionKind = v1alpha1.SchemeGroupVersion.WithKind("Platform")

// Clients are what a Platform's controller talks to the API server with.
type Clients struct {
	Kube     kubernetes.Interface
	Windlass versioned.Interface
}

// Informers are the caches. They are started by the caller, after New and before
// the controller runs.
type Informers struct {
	// Windlass selects nothing, so that a name that is taken is known too.
	Windlass externalversions.SharedInformerFactory
	// Metadata selects nothing: it is of namespaces.
	Metadata metadatainformer.SharedInformerFactory
	// Room says when an object that exceeded its budget can be cached. Nil means at once.
	Room controller.Room
}

// Options are what the operator's flags say of Platforms.
type Options struct {
	// OwnNamespaces are those of the operator itself, which no Platform may use.
	OwnNamespaces []string
	// Clock is required.
	Clock clock.WithTicker
}

// New returns the controller of Platform. Platforms are cluster-scoped: it needs the
// caches of all namespaces.
func New(clients Clients, in Informers, events controller.EventRecorder, o Options) (*controller.Controller, error) {
	platforms := in.Windlass.Windlass().V1alpha1().Platforms().Informer()
	namespaces, err := references.New(in.Metadata, corev1.SchemeGroupVersion.WithResource("namespaces"))
	if err != nil {
		return nil, err
	}
	guard := controller.NewGuard()
	known := newKinds(clients.Windlass, in.Windlass, guard)
	if err := platforms.AddIndexers(cache.Indexers{namespaceIndex: namespaceOf, childIndex: childrenOf}); err != nil {
		return nil, fmt.Errorf("indexing Platforms: %w", err)
	}
	queue := controller.NewQueue("platform", o.Clock)
	c := controller.New("platform", queue, newPipeline(clients, in, namespaces, known, guard, events, o).Sync)
	c.Watch(platforms, controller.Self(queue, guard))
	c.Watch(namespaces.Informer(), controller.Referrer(queue, func(namespace metav1.Object) []controller.Key {
		return references.Referrers(platforms.GetIndexer(), namespaceIndex, namespace.GetName())
	}))
	for _, k := range known {
		// An event is about the Platforms for which the object's name is that of a child: it may
		// be let go, or in the way. An owner reference alone, which anyone can forge who may
		// make the object, tells nothing.
		c.Watch(k.cache(), controller.Referrer(queue, func(child metav1.Object) []controller.Key {
			return references.Referrers(platforms.GetIndexer(), childIndex, childKey(k.name(), child.GetNamespace(), child.GetName()))
		}))
	}
	return c, nil
}

// newPipeline returns what does a pass.
func newPipeline(clients Clients, in Informers, namespaces references.Known, known kinds, guard *controller.Guard,
	events controller.EventRecorder, o Options,
) *controller.Pipeline[*v1alpha1.Platform] {
	platforms := in.Windlass.Windlass().V1alpha1().Platforms()
	return &controller.Pipeline[*v1alpha1.Platform]{
		Get: func(key controller.Key) (*v1alpha1.Platform, error) { return platforms.Lister().Get(key.Name) },
		Client: func(string) controller.Client[*v1alpha1.Platform] {
			return clients.Windlass.WindlassV1alpha1().Platforms()
		},
		Store: platforms.Informer().GetStore(),
		Reconciler: &reconciler{
			kinds:      known,
			namespaces: namespaces,
			guard:      guard,
			refusals:   newRefusals(o.Clock),
			clock:      o.Clock,
			homes:      clients.Kube.CoreV1().Namespaces(),
			reserved:   o.OwnNamespaces,
			live:       clients.Windlass.WindlassV1alpha1().Platforms().Get,
		},
		FinalizerName: finalizerName,
		RecheckAfter:  recheckAfter,
		Room:          in.Room,
		Guard:         guard,
		Events:        events,
		Clock:         o.Clock,
	}
}

const (
	// namespaceIndex finds Platforms by their namespace.
	namespaceIndex = "spec.namespace"
	// childIndex finds Platforms by the names of their children, by spec or status.
	childIndex = "platformChildren"
)

func namespaceOf(obj any) ([]string, error) {
	platform, ok := obj.(*v1alpha1.Platform)
	if !ok {
		return nil, nil
	}
	return []string{platform.Spec.Namespace}, nil
}

func childrenOf(obj any) ([]string, error) {
	platform, ok := obj.(*v1alpha1.Platform)
	if !ok {
		return nil, nil
	}
	keys := make([]string, 0, 2*len(platform.Spec.Components))
	for i := range platform.Spec.Components {
		c := &platform.Spec.Components[i]
		keys = append(keys, childKey(kindOf(c), platform.Spec.Namespace, childName(platform, string(c.Name))))
	}
	for i := range platform.Status.Components {
		c := &platform.Status.Components[i]
		keys = append(keys, childKey(c.Kind, platform.Spec.Namespace, childName(platform, string(c.Name))))
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

func childKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }
