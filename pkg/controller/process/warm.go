package process

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/controller"
)

// cachesPatience is how long a process waits for the caches of all kinds. It then continues without the
// kinds whose caches have not synced.
const cachesPatience = time.Minute

// warmUp waits for the caches before the process acquires the Lease, because a process that cannot work
// yet must not lead. The caches of a kind do not sync in time if, for example, its CRD or a permission is
// missing. Such a kind delays the election, readiness (and with it the webhook) and the other kinds by at
// most patience. Its own workers start when its caches have synced.
type warmUp struct {
	controllers []*controller.Controller
	patience    time.Duration
	over        atomic.Bool // whether wait has returned true
}

// newWarmUp returns a warmUp for the controllers in warm, or for all if warm is nil.
func newWarmUp(all, warm []*controller.Controller) *warmUp {
	if warm == nil {
		warm = all
	}
	return &warmUp{controllers: warm, patience: cachesPatience}
}

// wait returns true when the caches have synced or patience is over, and false if ctx ends before that.
func (w *warmUp) wait(ctx context.Context) bool {
	waiting, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	for _, c := range w.controllers {
		if c.WaitForSync(waiting) {
			continue
		}
		if ctx.Err() != nil {
			return false
		}
		klog.FromContext(ctx).Error(errUnfilled, "Starting without a kind whose caches have not synced", "controller",
			c.Name(), "patience", w.patience)
	}
	w.over.Store(true)
	return true
}

var errUnfilled = errors.New("the caches have not synced: check whether the CustomResourceDefinition is installed, " +
	"and whether the operator's service account may list and watch the kind and the types that it owns")

// readiness returns a check that passes when this process can work or stand by. If further is not nil,
// further must pass too.
func readiness(w *warmUp, further func() error) func() error {
	return func() error {
		for _, c := range w.controllers {
			if !c.HasSynced() && !w.over.Load() {
				return fmt.Errorf("the caches of controller %s have not synced yet", c.Name())
			}
		}
		if further == nil {
			return nil
		}
		return further()
	}
}
