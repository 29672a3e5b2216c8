package controllertest

import (
	"context"
	"testing"

	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
)

// Factory is a factory of informers, generated or client-go's own.
type Factory interface {
	Start(stop <-chan struct{})
	Shutdown()
}

// Run runs a controller and the informers that fill its caches until the test ends.
func Run(t testing.TB, c *controller.Controller, workers int, factories ...Factory) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	for _, f := range factories {
		f.Start(ctx.Done())
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, workers) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("running controller %s: %v", c.Name(), err)
		}
		for _, f := range factories {
			f.Shutdown()
		}
	})
}

// Reconcile starts the informers of factories, waits until the caches of kind have synced, reconciles one
// object once, and stops the informers.
func Reconcile[T controller.Object](
	t testing.TB, kind controller.Kind[T], r controller.Runtime, key controller.Key, factories ...Factory,
) (controller.Result, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer func() {
		cancel()
		for _, f := range factories {
			f.Shutdown()
		}
	}()
	for _, f := range factories {
		f.Start(ctx.Done())
	}
	informers := append([]cache.SharedIndexInformer{kind.Informer}, kind.Owned...)
	for _, reference := range kind.References {
		informers = append(informers, reference.Informer)
	}
	for _, informer := range informers {
		if !cache.WaitFor(ctx, "", informer.HasSyncedChecker()) {
			t.Fatalf("waiting for the caches of kind %s to sync: %v", kind.GroupVersionKind.Kind, ctx.Err())
		}
	}
	return kind.Pipeline(r).Sync(ctx, key)
}
