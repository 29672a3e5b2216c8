package platform

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

const (
	// invalidRetry is when a child is sent again that the API server refused for what it
	// says, and forbiddenRetry when one that may not be written, as for want of quota. A
	// change of the Platform or of the child comes at once.
	invalidRetry   = 5 * time.Minute
	forbiddenRetry = 30 * time.Second
)

// refusals remembers what the API server has refused, so that it is not sent again at
// each event of another component. It is lost with the process, and costs one more
// request for each then.
type refusals struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	last  map[types.UID]map[string]refusal // by Platform and component
}

type refusal struct {
	of    attempt
	err   error
	until time.Time
}

// noComponent stands for the namespace.
const noComponent = ""

// attempt is what was tried: a step, with what the Platform and the child say. There is
// none for the namespace.
type attempt struct {
	verb            verb
	platform, child string
}

// attemptOf is the step that a component is at. The labels of the Platform are its
// children's too, and count in no generation.
func attemptOf(platform *v1alpha1.Platform, c *component) attempt {
	a := attempt{verb: c.step.verb, platform: fmt.Sprint(platform.Generation, platform.Labels)}
	if c.child != nil {
		a.child = fmt.Sprint(c.child.GetUID(), c.child.GetGeneration())
	}
	return a
}

func newRefusals(clk clock.PassiveClock) *refusals {
	return &refusals{clock: clk, last: map[types.UID]map[string]refusal{}}
}

// note remembers an error, if it is a refusal.
func (r *refusals) note(platform types.UID, component string, of attempt, err error) {
	var retry time.Duration
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return // the end of that is an event
	case apierrors.IsInvalid(err):
		retry = invalidRetry
	case apierrors.IsForbidden(err):
		retry = forbiddenRetry
	default:
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last[platform] == nil {
		r.last[platform] = map[string]refusal{}
	}
	r.last[platform][component] = refusal{of, err, r.clock.Now().Add(retry)}
}

// recent is the error of an attempt that need not be made again yet, or nil.
func (r *refusals) recent(platform types.UID, component string, of attempt) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.last[platform][component]
	if known && last.of == of && r.clock.Now().Before(last.until) {
		return last.err
	}
	delete(r.last[platform], component)
	return nil
}

// forget drops what is known of a Platform that goes.
func (r *refusals) forget(platform types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, platform)
}
