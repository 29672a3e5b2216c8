package controllertest

import (
	"context"
	"testing"

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
			t.Errorf("the controller ended with: %v", err)
		}
		for _, f := range factories {
			f.Shutdown()
		}
	})
}
