package controllertest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/controller"
)

// RetryAfter returns how long a controller waits before it repeats a reconcile that returned result and err, if
// nothing changes. It returns 0 if the controller does not repeat the reconcile within a day.
func RetryAfter(t *testing.T, result controller.Result, err error) (after time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), klog.Logger{}), 24*time.Hour)
		defer cancel()
		queue := controller.NewQueue("", clock.RealClock{})
		var first time.Time
		c := controller.New("retry", queue, func(context.Context, controller.Key) (controller.Result, error) {
			if first.IsZero() {
				first = time.Now()
				return result, err
			}
			after = time.Since(first)
			cancel()
			return controller.Result{}, nil
		})
		queue.Add(controller.Key{Name: "a"}, controller.Urgent)
		if err := c.Run(ctx, 1); err != nil {
			t.Error(err)
		}
	})
	return after
}

// Resyncs fails the test unless result is that of a reconcile with nothing left to do, of a kind with the given resync.
func Resyncs(t testing.TB, resync time.Duration, result controller.Result) {
	t.Helper()
	if off := (result.RequeueAfter - resync).Abs(); !result.Check || off > resync/10 {
		t.Errorf("the next check is after %v (Check: %v), wanted %v ± 10 %%", result.RequeueAfter, result.Check, resync)
	}
}
