package controller_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestIncompleteDeclarationOfKindIsRejected(t *testing.T) {
	finalize := func(context.Context, *Toy) (controller.Result, error) { return controller.Result{}, nil }
	for name, c := range map[string]struct {
		change func(*controller.Kind[*Toy])
		want   string
	}{
		"a complete declaration": {func(*controller.Kind[*Toy]) {}, ""},
		"a complete finalizer": {func(k *controller.Kind[*Toy]) {
			k.Finalizer = controller.Finalizer[*Toy]{Name: toyFinalizer, Finalize: finalize}
		}, ""},
		"no Tracker":    {func(k *controller.Kind[*Toy]) { k.Tracker = nil }, "Tracker is not set"},
		"no Reconciler": {func(k *controller.Kind[*Toy]) { k.Reconciler = nil }, "Tracker is not set"},
		"a finalizer without a function": {
			func(k *controller.Kind[*Toy]) { k.Finalizer.Name = toyFinalizer },
			"the finalizer toys.example.com/clean has no function",
		},
		"a function without a finalizer": {
			func(k *controller.Kind[*Toy]) { k.Finalizer.Finalize = finalize }, "the function Finalize has no name",
		},
		"a method Finalize that nothing calls": {
			func(k *controller.Kind[*Toy]) { k.Reconciler = &cleaner{} }, "which nothing calls",
		},
		"a method Finalize with another signature": {
			func(k *controller.Kind[*Toy]) { k.Reconciler = &sweeper{} }, "which nothing calls",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newToyServer(t)
			kind := controller.Kind[*Toy]{
				GroupVersionKind: toyKind, Lister: server.lister, Client: server.client, Reconciler: &painter{},
				Tracker:  controller.NewTracker(),
				Informer: cache.NewSharedIndexInformer(&cache.ListWatch{}, &Toy{}, 0, cache.Indexers{}),
			}
			c.change(&kind)
			made, err := kind.Controller(controller.Runtime{
				Events: controller.DiscardEvents{}, Clock: clocktesting.NewFakeClock(time.Now()),
			})
			controllertest.ErrorContains(t, c.want, err)
			if made != nil {
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				controllertest.ErrorContains(t, "stopped before its caches had synced", made.Run(ended, 1)) // ends its goroutines
			}
		})
	}
}

// sweeper is a painter whose method Finalize has a signature other than that of Finalizer.Finalize.
type sweeper struct{ painter }

// Finalize has no context.
func (*sweeper) Finalize(*Toy) {}
