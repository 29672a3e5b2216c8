// Package at reconciles Ats: it waits for the scheduled time, creates the Pod that runs the
// command, and reports how the command ended.
package at

import (
	"cmp"

	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/cache"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/runonce"
)

// DefaultImage is the image of an At that names none, unless Options.DefaultImage is set.
const DefaultImage = "busybox:1.37"

// Options configure the controller of At.
type Options struct {
	// DefaultImage is the image of an At that names none. It defaults to the constant DefaultImage.
	DefaultImage string
}

// New returns the controller of At.
func New(c kinds.Cluster, r controller.Runtime, o Options) (*controller.Controller, error) {
	kind, err := declare(c, r, o)
	if err != nil {
		return nil, err
	}
	return kind.Controller(r)
}

// declare returns the Kind that declares At to the engine.
func declare(c kinds.Cluster, r controller.Runtime, o Options) (kind controller.Kind[*v1.At], err error) {
	client := func(namespace string) controller.Client[*v1.At] { return c.Windlass.CnatV1().Ats(namespace) }
	commands, err := runonce.New(c, r, "At", containerName, podSuffix, client)
	if err != nil {
		return kind, err
	}
	commands.Tracker = controller.NewTracker()
	return controller.Kind[*v1.At]{
		GroupVersionKind: v1.SchemeGroupVersion.WithKind("At"),
		Informer:         c.Kinds.Cnat().V1().Ats().Informer(),
		Lister:           controller.ListerOf(c.Kinds.Cnat().V1().Ats().Lister().Ats),
		Client:           client,
		Reconciler: &reconciler{
			commands: commands,
			ats:      c.Windlass.CnatV1(),
			image:    cmp.Or(o.DefaultImage, DefaultImage),
			clock:    r.Clock,
			events:   r.Events,
			starts:   utilcache.NewExpiringWithClock(r.Clock),
		},
		Tracker:    commands.Tracker,
		Release:    commands.Release,
		Expected:   expected,
		Owned:      []cache.SharedIndexInformer{commands.Informer},
		References: []controller.Reference{commands.Reference()},
	}, nil
}
