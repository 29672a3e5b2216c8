// Package externaldatabase reconciles ExternalDatabases: it creates, updates and deletes a role and a database on an
// existing PostgreSQL server, and a Secret with which clients connect. pkg/postgresql executes the statements.
package externaldatabase

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
)

const (
	// resync is how often a database is checked, because servers send no events.
	resync = 5 * time.Minute
	// finalizerName is the finalizer that the engine removes after Finalize has succeeded.
	finalizerName = "windlass.dev/externaldatabase"
)

// New returns the controller of ExternalDatabase, which connects to servers through connector. users finds the clients
// that still use the previous login of a Secret. In a plan, stored reads the Secrets without the writes of the plan:
// see vet. Without a plan, stored is nil.
func New(
	c kinds.Cluster, r controller.Runtime, connector *postgresql.Connector, users credentials.Users,
	stored coreclient.SecretsGetter,
) (*controller.Controller, error) {
	open := func(namespace string, admin postgresql.Settings) server { return connector.Open(namespace, admin) }
	kind, err := declare(c, r, open, users, stored)
	if err != nil {
		return nil, err
	}
	return kind.Controller(r)
}

var groupVersionKind = v1alpha1.SchemeGroupVersion.WithKind("ExternalDatabase")

// declare returns the Kind that declares ExternalDatabase to the engine.
func declare(
	c kinds.Cluster, r controller.Runtime, open func(string, postgresql.Settings) server, users credentials.Users,
	stored coreclient.SecretsGetter,
) (kind controller.Kind[*v1alpha1.ExternalDatabase], err error) {
	own, tracker := c.Kinds.Windlass().V1alpha1(), controller.NewTracker()
	objects, databases := own.ExternalDatabases().Informer(), own.Databases()
	secrets, err := references.NewNamed(c.Others, corev1.SchemeGroupVersion.WithResource("secrets"), c.Secrets().Informer)
	if err != nil {
		return kind, err
	}
	referrers, err := newReferrers(objects)
	if err != nil {
		return kind, err
	}
	read := &connections{
		known: secrets.Get, secrets: c.Kube.CoreV1(), referrers: referrers, read: map[controller.Key]connection{},
	}
	children := c.Secrets().Type(tracker)
	reconciler := &reconciler{
		secrets: children, connections: read, open: open, live: c.Windlass.WindlassV1alpha1(),
		databases: databases.Lister(), claims: c.Kube.CoreV1(),
		unavailable: controller.NewRejections[controller.Key](r.Clock), clock: r.Clock, users: users, events: r.Events,
		stored: stored,
	}
	kind = controller.Kind[*v1alpha1.ExternalDatabase]{
		GroupVersionKind: groupVersionKind,
		Informer:         objects,
		Lister:           controller.ListerOf(own.ExternalDatabases().Lister().ExternalDatabases),
		Client: func(namespace string) controller.Client[*v1alpha1.ExternalDatabase] {
			return c.Windlass.WindlassV1alpha1().ExternalDatabases(namespace)
		},
		Reconciler: reconciler,
		Tracker:    tracker,
		Finalizer:  controller.Finalizer[*v1alpha1.ExternalDatabase]{Name: finalizerName, Finalize: reconciler.Finalize},
		Resync:     resync,
		Owned:      []cache.SharedIndexInformer{children.Informer},
	}
	for _, informer := range secrets.Informers() {
		kind.References = append(kind.References, controller.Reference{Informer: informer, Referrers: referrers.Of})
	}
	kind.References = append(kind.References, controller.Reference{
		Informer: databases.Informer(), Optional: true,
		Referrers: func(db metav1.Object) []controller.Key { return usersOf(db, referrers) },
	})
	return kind, nil
}

// usersOf returns the keys of the ExternalDatabases whose connection Secret is the Secret of a Database, if the
// Database is Ready. They are reconciled at once, and do not wait for the next retry.
func usersOf(db metav1.Object, referrers references.Index) []controller.Key {
	if object, ok := db.(controller.Object); !ok || !conditions.IsTrue(*object.StatusConditions(), conditions.Ready) {
		return nil
	}
	return referrers.Find(controller.Key{Namespace: db.GetNamespace(), Name: credentials.Name(db.GetName())}.String())
}

// newReferrers returns the index of ExternalDatabases by their connection Secret.
func newReferrers(objects cache.SharedIndexInformer) (references.Index, error) {
	return references.NewIndex(objects, "connectionSecretRef", func(db *v1alpha1.ExternalDatabase) []string {
		return []string{connectionKey(db).String()}
	})
}
