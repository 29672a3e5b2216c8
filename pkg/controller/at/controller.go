// Package at runs a command at a time: it takes an At from Pending to Running,
// makes its Pod, and tells how the command ended.
package at

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/pods"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
)

// DefaultImage is the image of an At that names none, unless Options say
// otherwise.
const DefaultImage = "busybox:1.37"

// Options are what an operator may decide for all Ats.
type Options struct {
	// DefaultImage is the image of an At that names none. Empty means the
	// constant of that name.
	DefaultImage string
	// Clock is the clock by which schedules are read. Nil means the real one.
	Clock clock.WithTicker
}

// Clients are what an At's controller talks to the API server with.
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

// New returns the controller of At.
func New(clients Clients, in Informers, events controller.EventRecorder, opts Options) (*controller.Controller, error) {
	if opts.DefaultImage == "" {
		opts.DefaultImage = DefaultImage
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	ats := in.Windlass.Cnat().V1().Ats()
	watched, err := pods.Watched(in.Kube)
	if err != nil {
		return nil, err
	}
	queue := controller.NewQueue("at", opts.Clock)
	guard := controller.NewGuard()
	pipeline := &controller.Pipeline[*v1.At]{
		Get: func(key controller.Key) (*v1.At, error) {
			return ats.Lister().Ats(key.Namespace).Get(key.Name)
		},
		Client: func(namespace string) controller.Client[*v1.At] { return clients.Windlass.CnatV1().Ats(namespace) },
		Store:  ats.Informer().GetStore(),
		Reconciler: &reconciler{
			ats:    clients.Windlass.CnatV1(),
			pods:   clients.Kube.CoreV1(),
			cache:  watched.Lister(),
			store:  watched.Informer().GetStore(),
			guard:  guard,
			image:  opts.DefaultImage,
			clock:  opts.Clock,
			starts: newStarts(),

			refusals: newRefusals(),
		},
		Room:   in.Room,
		Guard:  guard,
		Events: events,
		Clock:  opts.Clock,
	}
	c := controller.New("at", queue, pipeline.Sync)
	c.Watch(ats.Informer(), controller.Self(queue, guard))
	c.Watch(watched.Informer(), controller.Owner(queue, v1.SchemeGroupVersion.WithKind("At").GroupKind(), meta.RESTScopeNameNamespace))
	return c, nil
}
