// Package at reconciles Ats: it waits for the scheduled time, creates the Pod that runs the
// command, and reports how the command ended.
package at

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
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
	return kind.Controller(r), nil
}

// declare returns the Kind that declares At to the engine.
func declare(c kinds.Cluster, r controller.Runtime, o Options) (kind controller.Kind[*v1.At], err error) {
	watched, err := pods.Watched(c.Owned)
	if err != nil {
		return kind, err
	}
	tracker := controller.NewTracker()
	commands := &pods.Commands{
		Kind: "At", Container: containerName, Client: c.Kube.CoreV1(), Tracker: tracker,
		Cache: children.CacheOf[*corev1.Pod](watched.Informer().GetStore()),
		Owner: func(ctx context.Context, key controller.Key) (metav1.Object, error) {
			return c.Windlass.CnatV1().Ats(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		},
	}
	return controller.Kind[*v1.At]{
		GroupVersionKind: v1.SchemeGroupVersion.WithKind("At"),
		Informer:         c.Own.Cnat().V1().Ats().Informer(),
		Client:           func(namespace string) controller.Client[*v1.At] { return c.Windlass.CnatV1().Ats(namespace) },
		Reconciler: &reconciler{
			ats:      c.Windlass.CnatV1(),
			pods:     c.Kube.CoreV1(),
			tracker:  tracker,
			commands: commands,
			image:    cmp.Or(o.DefaultImage, DefaultImage),
			clock:    r.Clock,
			events:   r.Events,
			starts:   newStarts(),
			refusals: controller.NewRefusals[int64](r.Clock),
		},
		Tracker:    tracker,
		Expected:   expected,
		Owned:      []cache.SharedIndexInformer{watched.Informer()},
		References: []controller.Reference{pods.TrackedPods(watched.Informer(), podSuffix)},
	}, nil
}
