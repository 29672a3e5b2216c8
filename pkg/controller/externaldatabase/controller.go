// Package externaldatabase keeps a role and a database on a PostgreSQL server that
// runs elsewhere, and the Secret to connect with. What it does on the server is in
// pkg/postgresql; here it is decided when, and told what came of it.
package externaldatabase

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/children"
	"windlass.dev/windlass/pkg/controller/internal/credentials"
	"windlass.dev/windlass/pkg/controller/internal/references"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
	"windlass.dev/windlass/pkg/postgresql"
)

const (
	// recheckAfter is when a database is looked at without an event: servers send none.
	recheckAfter = 5 * time.Minute
	// finalizerName holds an ExternalDatabase until its database is dealt with.
	finalizerName = "windlass.dev/externaldatabase"
)

// Clients are what an ExternalDatabase's controller talks to the API server with.
type Clients struct {
	Kube     kubernetes.Interface
	Windlass versioned.Interface
}

// Informers are the caches. They are started by the caller, after New and before
// the controller runs.
type Informers struct {
	// Kube selects the label app.kubernetes.io/managed-by=windlass.
	Kube     informers.SharedInformerFactory
	Windlass externalversions.SharedInformerFactory
	// Others selects what Kube does not: it is of the Secrets that users name, of which
	// the data stays where it is.
	Others metadatainformer.SharedInformerFactory
	// Room says when an object that exceeded its budget can be cached. Nil means at once.
	Room controller.Room
}

// New returns the controller of ExternalDatabase. It connects to servers by connector.
func New(clients Clients, in Informers, connector *postgresql.Connector, events controller.EventRecorder, clk clock.WithTicker) (*controller.Controller, error) {
	objects := in.Windlass.Windlass().V1alpha1().ExternalDatabases().Informer()
	own := in.Kube.Core().V1().Secrets().Informer()
	secrets, err := references.NewNamed(in.Others, corev1.SchemeGroupVersion.WithResource("secrets"), own)
	if err != nil {
		return nil, err
	}
	if err := objects.AddIndexers(cache.Indexers{connectionIndex: connectionOf}); err != nil {
		return nil, fmt.Errorf("indexing ExternalDatabases: %w", err)
	}
	open := func(namespace string, admin postgresql.Settings) server { return connector.Open(namespace, admin) }
	queue := controller.NewQueue("externaldatabase", clk)
	read := newConnections(secrets.Get, clients.Kube.CoreV1())
	pipeline := newPipeline(clients, in, read, open, events, clk)
	c := controller.New("externaldatabase", queue, pipeline.Sync)
	c.Watch(objects, controller.Self(queue, pipeline.Guard))
	c.Watch(objects, read.forgetful(referrers(objects)))
	c.Watch(own, controller.Owner(queue, groupVersionKind.GroupKind(), meta.RESTScopeNameNamespace))
	referrer := controller.Referrer(queue, func(secret metav1.Object) []controller.Key {
		return referrers(objects)(controller.Key{Namespace: secret.GetNamespace(), Name: secret.GetName()})
	})
	for _, informer := range secrets.Informers() {
		c.Watch(informer, referrer)
	}
	return c, nil
}

var groupVersionKind = v1alpha1.SchemeGroupVersion.WithKind("ExternalDatabase")

// newPipeline returns what does a pass.
func newPipeline(clients Clients, in Informers, read *connections, open func(string, postgresql.Settings) server,
	events controller.EventRecorder, clk clock.PassiveClock,
) *controller.Pipeline[*v1alpha1.ExternalDatabase] {
	objects, guard := in.Windlass.Windlass().V1alpha1().ExternalDatabases(), controller.NewGuard()
	secrets := in.Kube.Core().V1().Secrets()
	return &controller.Pipeline[*v1alpha1.ExternalDatabase]{
		Get: func(key controller.Key) (*v1alpha1.ExternalDatabase, error) {
			return objects.Lister().ExternalDatabases(key.Namespace).Get(key.Name)
		},
		Client: func(namespace string) controller.Client[*v1alpha1.ExternalDatabase] {
			return clients.Windlass.WindlassV1alpha1().ExternalDatabases(namespace)
		},
		Store: objects.Informer().GetStore(),
		Reconciler: &reconciler{
			secrets: children.Type[*corev1.Secret]{
				Kind: "Secret", Guard: guard, Cache: children.CacheOf[*corev1.Secret](secrets.Informer().GetStore()),
				Client: func(ns string) children.Client[*corev1.Secret] { return clients.Kube.CoreV1().Secrets(ns) },
				Keep:   credentials.KeepPassword,
			},
			connections: read,
			open:        open,
			live:        clients.Windlass.WindlassV1alpha1(),
		},
		FinalizerName: finalizerName,
		RecheckAfter:  recheckAfter,
		Room:          in.Room,
		Guard:         guard,
		Events:        events,
		Clock:         clk,
	}
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

// referrers finds the ExternalDatabases that name a connection Secret.
func referrers(objects cache.SharedIndexInformer) func(secret controller.Key) []controller.Key {
	return func(secret controller.Key) []controller.Key {
		return references.Referrers(objects.GetIndexer(), connectionIndex, secret.String())
	}
}
