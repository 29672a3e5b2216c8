// Package platform reconciles Platforms: for each Managed component, it creates an App, a Database, an
// ExternalDatabase or an At once the dependencies of the component are Ready. It releases the children of
// Unmanaged components, and deletes the children of Removed components.
package platform

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/kinds"
)

const (
	// resync is how often a Platform is reconciled without an event.
	resync = 10 * time.Minute
	// finalizerName is the finalizer that the engine removes after Finalize has deleted or released the
	// children.
	finalizerName = "windlass.dev/platform"
)

var groupVersionKind = v1alpha1.SchemeGroupVersion.WithKind("Platform")

// Options configure the controller of Platform.
type Options struct {
	// OwnNamespaces are the namespaces of the operator itself, which no Platform may use.
	OwnNamespaces []string
}

// New returns the controller of Platform. Platforms are cluster-scoped, so c has to cache all namespaces.
func New(c kinds.Cluster, r controller.Runtime, o Options) (*controller.Controller, error) {
	kind, err := declare(c, r, o)
	if err != nil {
		return nil, err
	}
	return kind.Controller(r)
}

// declare returns the Kind that declares Platform to the engine.
func declare(c kinds.Cluster, r controller.Runtime, o Options) (kind controller.Kind[*v1alpha1.Platform], err error) {
	own, tracker := c.Kinds.Windlass().V1alpha1().Platforms(), controller.NewTracker()
	platforms := own.Informer()
	namespaces, err := references.New(c.All, corev1.SchemeGroupVersion.WithResource("namespaces"))
	if err != nil {
		return kind, err
	}
	byNamespace, err := references.NewIndex(platforms, "spec.namespace", func(p *v1alpha1.Platform) []string {
		return []string{p.Spec.Namespace}
	})
	if err != nil {
		return kind, err
	}
	byChild, err := references.NewIndex(platforms, "children", childrenOf)
	if err != nil {
		return kind, err
	}
	known := newKinds(c.Windlass, c.Kinds, tracker)
	reconciler := &reconciler{
		kinds:      known,
		namespaces: namespaces,
		tracker:    tracker,
		rejections: controller.NewRejections[attempt](r.Clock),
		clock:      r.Clock,
		homes:      c.Kube.CoreV1().Namespaces(),
		reserved:   o.OwnNamespaces,
		live:       c.Windlass.WindlassV1alpha1().Platforms().Get,
	}
	kind = controller.Kind[*v1alpha1.Platform]{
		GroupVersionKind: groupVersionKind,
		Informer:         platforms,
		Lister:           func(string) controller.Lister[*v1alpha1.Platform] { return own.Lister() },
		Client: func(string) controller.Client[*v1alpha1.Platform] {
			return c.Windlass.WindlassV1alpha1().Platforms()
		},
		Reconciler: reconciler,
		Tracker:    tracker,
		Finalizer:  controller.Finalizer[*v1alpha1.Platform]{Name: finalizerName, Finalize: reconciler.Finalize},
		Resync:     resync,
		References: []controller.Reference{{Informer: namespaces.Informer(), Referrers: byNamespace.Of}},
	}
	for _, k := range known {
		// An event concerns every Platform that has a child with the name of the object, whatever the owner reference of the
		// object: a released child has none, and anyone who may create the object can forge it.
		kind.References = append(kind.References,
			controller.Reference{Informer: k.Informer, Referrers: func(child metav1.Object) []controller.Key {
				return byChild.Find(childKey(k.Kind, child.GetNamespace(), child.GetName()))
			}})
	}
	return kind, nil
}

// childrenOf returns the keys of a Platform's children, from its spec and its status.
func childrenOf(platform *v1alpha1.Platform) []string {
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
	return slices.Compact(keys)
}

func childKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }
