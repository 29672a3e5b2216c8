package platform

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
)

// childKinds are the kinds of components.
type childKinds []kind

// named returns the kind with the given name, or nil.
func (k childKinds) named(name string) kind {
	for _, kind := range k {
		if kind.name() == name {
			return kind
		}
	}
	return nil
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

// newKinds returns all kinds of components.
func newKinds(
	client versioned.Interface, in externalversions.SharedInformerFactory, tracker *controller.Tracker,
) childKinds {
	windlass, cnat := client.WindlassV1alpha1(), client.CnatV1()
	caches := in.Windlass().V1alpha1()
	ats := newKind("At", in.Cnat().V1().Ats().Informer(), tracker,
		func(ns string) children.Client[*cnatv1.At] { return cnat.Ats(ns) },
		desiredTask, func(at *cnatv1.At) string { return string(at.Status.Phase) })
	ats.Keep = keepStarted
	return childKinds{
		newKind("App", caches.Apps().Informer(), tracker,
			func(ns string) children.Client[*v1alpha1.App] { return windlass.Apps(ns) },
			func(meta metav1.ObjectMeta, c *v1alpha1.PlatformComponent) *v1alpha1.App {
				return &v1alpha1.App{ObjectMeta: meta, Spec: *c.App}
			},
			func(app *v1alpha1.App) string { return string(app.Status.Phase) }),
		newKind("Database", caches.Databases().Informer(), tracker,
			func(ns string) children.Client[*v1alpha1.Database] { return windlass.Databases(ns) },
			func(meta metav1.ObjectMeta, c *v1alpha1.PlatformComponent) *v1alpha1.Database {
				return &v1alpha1.Database{ObjectMeta: meta, Spec: *c.Database}
			},
			func(db *v1alpha1.Database) string { return string(db.Status.Phase) }),
		newKind("ExternalDatabase", caches.ExternalDatabases().Informer(), tracker,
			func(ns string) children.Client[*v1alpha1.ExternalDatabase] { return windlass.ExternalDatabases(ns) },
			func(meta metav1.ObjectMeta, c *v1alpha1.PlatformComponent) *v1alpha1.ExternalDatabase {
				return &v1alpha1.ExternalDatabase{ObjectMeta: meta, Spec: *c.ExternalDatabase}
			},
			func(db *v1alpha1.ExternalDatabase) string { return string(db.Status.Phase) }),
		ats,
	}
}
