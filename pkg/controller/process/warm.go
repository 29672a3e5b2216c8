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

// cachesPatience is how long a process waits for the caches of all kinds. After that, the process continues without the
// kinds whose caches have not synced.
const cachesPatience = time.Minute

// warmUp waits for the caches before the process acquires the Lease, because a process that cannot work yet must not
// lead. The caches of a kind do not sync in time if, for example, its CRD or a permission is missing. Such a kind
// delays the election, readiness (and with it the webhook) and the other kinds by at most cachesPatience. The workers
// of such a kind start when its caches have synced.
type warmUp struct {
	controllers []*controller.Controller
	over        atomic.Bool // whether wait has returned true
}

// newWarmUp returns a warmUp for the controllers in Instance.Warm, or for all if it is nil.
func newWarmUp(i Instance) *warmUp {
	if i.Warm == nil {
		return &warmUp{controllers: i.Controllers}
	}
	return &warmUp{controllers: i.Warm}
}

// wait returns true when the caches have synced or cachesPatience is over, and false if ctx ends before that.
func (w *warmUp) wait(ctx context.Context) bool {
	waiting, cancel := context.WithTimeout(ctx, cachesPatience)
	defer cancel()
	for _, c := range w.controllers {
		if c.WaitForSync(waiting) {
			continue
		}
		if ctx.Err() != nil {
			return false
		}
		klog.FromContext(ctx).Error(errUnfilled, "Starting without a kind whose caches have not synced", "controller",
			c.Name(), "patience", cachesPatience)
	}
	w.over.Store(true)
	return true
}

var errUnfilled = errors.New("the caches have not synced: check whether the CustomResourceDefinition is installed, " +
	"and whether the operator's service account may list and watch the kind and the types that it owns")

// check returns an error until the caches of all controllers have synced, or wait has returned true.
func (w *warmUp) check() error {
	for _, c := range w.controllers {
		if !c.HasSynced() && !w.over.Load() {
			return fmt.Errorf("the caches of controller %s have not synced yet", c.Name())
		}
	}
	return nil
}
