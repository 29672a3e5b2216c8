// Package database runs PostgreSQL: it takes a Database to Secret, Service, volume
// claim and StatefulSet, and keeps them so. The password is made once and then is
// what the Secret says; the claim outlives the Database unless that says otherwise.
package database

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/pods"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
)

const (
	// recheckAfter is when a Database is compared with its children without an event.
	recheckAfter = 10 * time.Minute
	// finalizerName holds a Database until its volume is dealt with.
	finalizerName = "windlass.dev/database"
)

// Clients are what a Database's controller talks to the API server with.
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
	// Room says when an object that exceeded its budget can be cached. Nil means at once.
	Room controller.Room
}

// Options are what the operator's flags say of Databases.
type Options struct {
	// Image is that of a Database that names none, without the tag. Empty means DefaultImage.
	Image string
	// Clock is required.
	Clock clock.WithTicker
}

// New returns the controller of Database.
func New(clients Clients, in Informers, events controller.EventRecorder, o Options) (*controller.Controller, error) {
	watched, err := pods.Watched(in.Kube)
	if err != nil {
		return nil, err
	}
	databases := in.Windlass.Windlass().V1alpha1().Databases()
	queue := controller.NewQueue("database", o.Clock)
	pipeline := newPipeline(clients, in, events, o)
	c := controller.New("database", queue, pipeline.Sync)
	c.Watch(databases.Informer(), controller.Self(queue, pipeline.Guard))
	owner := controller.Owner(queue, v1alpha1.SchemeGroupVersion.WithKind("Database").GroupKind(), meta.RESTScopeNameNamespace)
	for _, informer := range childInformers(in.Kube) {
		c.Watch(informer, owner)
	}
	c.Watch(in.Kube.Core().V1().PersistentVolumeClaims().Informer(), controller.Referrer(queue, claimants))
	c.Watch(watched.Informer(), controller.Referrer(queue, runners))
	return c, nil
}

// newPipeline returns what does a pass.
func newPipeline(clients Clients, in Informers, events controller.EventRecorder, o Options) *controller.Pipeline[*v1alpha1.Database] {
	databases, guard := in.Windlass.Windlass().V1alpha1().Databases(), controller.NewGuard()
	r := newReconciler(clients.Kube, in.Kube, guard)
	r.databases, r.pods = clients.Windlass.WindlassV1alpha1(), clients.Kube.CoreV1()
	r.refusals, r.clock, r.image = newRefusals(o.Clock), o.Clock, cmp.Or(o.Image, DefaultImage)
	return &controller.Pipeline[*v1alpha1.Database]{
		Get: func(key controller.Key) (*v1alpha1.Database, error) {
			return databases.Lister().Databases(key.Namespace).Get(key.Name)
		},
		Client: func(namespace string) controller.Client[*v1alpha1.Database] {
			return clients.Windlass.WindlassV1alpha1().Databases(namespace)
		},
		Store:         databases.Informer().GetStore(),
		Reconciler:    r,
		FinalizerName: finalizerName,
		RecheckAfter:  recheckAfter,
		Room:          in.Room,
		Guard:         guard,
		Events:        events,
		Clock:         o.Clock,
	}
}

// claimants is the Database of a claim, which bears its name.
func claimants(claim metav1.Object) []controller.Key {
	return []controller.Key{{Namespace: claim.GetNamespace(), Name: claim.GetName()}}
}

// runners is the Database of a Pod, which bears its labels.
func runners(pod metav1.Object) []controller.Key {
	labels := pod.GetLabels()
	if labels[nameLabel] != nameLabelValue {
		return nil
	}
	return []controller.Key{{Namespace: pod.GetNamespace(), Name: labels[instanceLabel]}}
}
