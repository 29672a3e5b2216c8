// Package externaldatabase reconciles ExternalDatabases: it keeps a role and a database on a
// PostgreSQL server outside of the cluster, and a Secret to connect with. pkg/postgresql executes the
// statements.
package externaldatabase

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/controller/credentials"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/postgresql"
)

const (
	// resync is how often a database is checked, because servers send no events.
	resync = 5 * time.Minute
	// finalizerName is the finalizer that is removed after the deletion policy was applied.
	finalizerName = "windlass.dev/externaldatabase"
)

// New returns the controller of ExternalDatabase, which connects to servers by connector.
func New(c cluster.Cluster, r controller.Runtime, connector *postgresql.Connector) (*controller.Controller, error) {
	open := func(namespace string, admin postgresql.Settings) server { return connector.Open(namespace, admin) }
	kind, read, err := declare(c, open)
	if err != nil {
		return nil, err
	}
	made := kind.Controller(r)
	made.Watch(kind.Informer, read.forgetful(referrers(kind.Informer)))
	return made, nil
}

var groupVersionKind = v1alpha1.SchemeGroupVersion.WithKind("ExternalDatabase")

// declare declares ExternalDatabase to the engine. It also returns the reader of connection Secrets.
func declare(c cluster.Cluster, open func(string, postgresql.Settings) server) (kind controller.Kind[*v1alpha1.ExternalDatabase], read *connections, err error) {
	objects, tracker := c.Own.Windlass().V1alpha1().ExternalDatabases().Informer(), controller.NewTracker()
	secrets, err := references.NewNamed(c.Others, corev1.SchemeGroupVersion.WithResource("secrets"), c.Secrets().Informer)
	if err != nil {
		return kind, nil, err
	}
	if err := objects.AddIndexers(cache.Indexers{connectionIndex: connectionOf}); err != nil {
		return kind, nil, fmt.Errorf("indexing ExternalDatabases: %w", err)
	}
	read = newConnections(secrets.Get, c.Kube.CoreV1())
	children := c.Secrets().Type(tracker)
	children.Keep = credentials.KeepPassword
	kind = controller.Kind[*v1alpha1.ExternalDatabase]{
		GroupVersionKind: groupVersionKind,
		Informer:         objects,
		Client: func(namespace string) controller.Client[*v1alpha1.ExternalDatabase] {
			return c.Windlass.WindlassV1alpha1().ExternalDatabases(namespace)
		},
		Reconciler: &reconciler{secrets: children, connections: read, open: open, live: c.Windlass.WindlassV1alpha1()},
		Tracker:    tracker,
		Finalizer:  finalizerName,
		Resync:     resync,
		Owned:      []cache.SharedIndexInformer{children.Informer},
	}
	for _, informer := range secrets.Informers() {
		kind.References = append(kind.References, controller.Reference{Informer: informer, Referrers: func(secret metav1.Object) []controller.Key {
			return referrers(objects)(controller.Key{Namespace: secret.GetNamespace(), Name: secret.GetName()})
		}})
	}
	return kind, read, nil
}

// connectionIndex finds ExternalDatabases by their connection Secret.
const connectionIndex = "connectionSecretRef"

func connectionOf(obj any) ([]string, error) {
	db, ok := obj.(*v1alpha1.ExternalDatabase)
	if !ok {
		return nil, nil
	}
	return []string{connectionKey(db).String()}, nil
}

// referrers returns the ExternalDatabases that refer to a connection Secret.
func referrers(objects cache.SharedIndexInformer) func(secret controller.Key) []controller.Key {
	return func(secret controller.Key) []controller.Key {
		return references.Referrers(objects.GetIndexer(), connectionIndex, secret.String())
	}
}
