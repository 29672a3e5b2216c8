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

// cachesPatience is how long a process waits for the caches of all kinds before it does without
// those that are not filled.
const cachesPatience = time.Minute

// warmUp waits for the caches that a process fills before it asks for the lease: one that cannot
// work yet must not lead. A kind whose caches are not filled in time, since its CRD or a right is
// missing, holds up neither the lease, nor readiness and the webhook with it, nor the other kinds:
// its own workers begin when its caches are filled.
type warmUp struct {
	controllers []*controller.Controller
	patience    time.Duration
	over        atomic.Bool // patience is over
}

// wait returns false if ctx ends before the caches are filled or patience is over.
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
		klog.FromContext(ctx).Error(errUnfilled, "A kind does not work yet; the others do", "controller", c.Name(), "patience", w.patience)
	}
	w.over.Store(true)
	return true
}

var errUnfilled = errors.New("its caches are not filled: see whether its CustomResourceDefinition is installed, and whether the operator's account may list and watch what it owns")

// readiness returns a check whether this process can work, or stand by. further may be nil.
func readiness(w *warmUp, further func() error) func() error {
	return func() error {
		for _, c := range w.controllers {
			if !c.HasSynced() && !w.over.Load() {
				return fmt.Errorf("the caches of controller %s are not filled yet", c.Name())
			}
		}
		if further == nil {
			return nil
		}
		return further()
	}
}
