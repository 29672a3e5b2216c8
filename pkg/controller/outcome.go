package controller

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller/internal/conditions"
)

// invalidRetry is how often a pass is tried again that the API server refused
// for what it wanted to write. A change of the object comes at once.
const invalidRetry = 5 * time.Minute

// outcomePanic names the outcome that has a counter of its own.
const outcomePanic = "panic"

// outcomeUnreadable names the outcome whose objects a gauge counts.
const outcomeUnreadable = "unreadable"

// retry says when the next pass comes.
type retry int

const (
	onChange retry = iota // when something changes
	after                 // after outcome.after
	backoff               // after 1 s, 2 s, 4 s … 5 min
	quickly               // after milliseconds
)

// outcome is how a pass ended, and everything that follows from it.
type outcome struct {
	// name is the label "result" of controller_runtime_reconcile_total.
	name  string
	retry retry
	after time.Duration
	lane  Lane
	// err is set if the pass failed in a way that is logged and counted.
	err error
	// quiet outcomes say nothing about the object: its status stays.
	quiet bool
	// reason and message go into Ready=False and, if set, Degraded=True and
	// Stalled=True. Without a reason the kind's own conditions stand.
	reason, message   string
	degraded, stalled bool
}

// classify is the one place that sorts how passes end. See the table in doc.go.
func classify(result Result, err error) outcome {
	var (
		unstalled *unstalledError
		panicked  *panicError
		postponed *postponeError
		throttled *throttledError
		stalled   *stalledError
		wait      *waitError
		unread    *Unreadable
	)
	switch {
	case err == nil && result.RequeueAfter > 0:
		o := outcome{name: "requeue_after", retry: after, after: result.RequeueAfter, lane: Urgent}
		if result.Check {
			o.lane = Background
		}
		return o
	case err == nil:
		return outcome{name: "success"}
	case errors.As(err, &unstalled):
		o := classify(result, unstalled.err)
		if o.stalled {
			o.name, o.stalled = "degraded", false
		}
		return o
	case errors.Is(err, errBehind):
		return outcome{name: "behind", retry: quickly, quiet: true}
	case errors.Is(err, context.Canceled):
		return outcome{name: "canceled", retry: backoff, quiet: true}
	case errors.As(err, &postponed):
		return outcome{name: "postponed", quiet: true}.in(postponed.after)
	case errors.As(err, &unread):
		o := outcome{name: outcomeUnreadable, degraded: true, stalled: true, reason: unread.Reason, message: unread.Message, lane: Background}
		if unread.Size > 0 {
			return o.in(unreadableRecheck)
		}
		return o
	case errors.As(err, &panicked):
		return failed(outcomePanic, "Panic", err)
	case errors.As(err, &throttled):
		return outcome{name: "throttled", quiet: true}.in(throttled.after)
	case errors.As(err, &stalled):
		o := outcome{name: "terminal", err: err, degraded: true, stalled: true, reason: ReasonOf(err), message: err.Error()}
		return o.in(stalled.after)
	case errors.As(err, &wait):
		return outcome{name: "wait", reason: ReasonOf(wait), message: wait.message, lane: wait.lane}.in(wait.after)
	case apierrors.IsConflict(err):
		return outcome{name: "conflict", retry: quickly, quiet: true}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// Nothing can be made there any more, and the object itself goes soon.
		return outcome{name: "terminating", retry: backoff, quiet: true}
	case apierrors.IsInvalid(err):
		return outcome{name: "invalid", retry: after, after: invalidRetry, err: err, degraded: true, reason: ReasonOf(err), message: err.Error()}
	default:
		return failed("error", ReasonOf(err), err)
	}
}

// Worst returns the one of several errors that decides what becomes of a pass, for a
// kind that does the rest of its work when a part fails: one that is tried again at once
// or with backoff, else the first to be tried again of those that a user must look at,
// else one that is waited for. Without errors it is nil.
func Worst(errs ...error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return slices.MinFunc(errs, func(a, b error) int {
		x, y := classify(Result{}, a), classify(Result{}, b)
		return cmp.Or(cmp.Compare(x.urgency(), y.urgency()), cmp.Compare(x.wait(), y.wait()))
	})
}

// urgency is the lower, the more an outcome decides of the next pass.
func (o outcome) urgency() int {
	switch {
	case o.retry == quickly:
		return 0
	case o.retry == backoff:
		return 1
	case o.err != nil:
		return 2
	case !o.quiet:
		return 3
	default:
		return 4
	}
}

// wait is how long an outcome waits, as far as it tells.
func (o outcome) wait() time.Duration {
	if o.retry == onChange {
		return math.MaxInt64
	}
	return o.after
}

// Quiet tells whether an error says nothing about an object: its status stays.
func Quiet(err error) bool { return classify(Result{}, err).quiet }

// Degrades tells whether the engine reports an error as Degraded, for kinds whose
// phase says so too.
func Degrades(err error) bool { return classify(Result{}, err).degraded }

// in returns o with a retry after d. Without a positive d a change is waited for.
func (o outcome) in(d time.Duration) outcome {
	if d > 0 {
		o.retry, o.after = after, d
	}
	return o
}

func failed(name, reason string, err error) outcome {
	return outcome{name: name, retry: backoff, err: err, reason: reason, message: err.Error()}
}

// blame sets the conditions that follow from an outcome. After a clean pass they
// are the kind's alone.
func (o outcome) blame(list *[]metav1.Condition) {
	if o.reason == "" {
		return
	}
	conditions.False(list, conditions.Ready, o.reason, o.message)
	if o.degraded {
		conditions.True(list, conditions.Degraded, o.reason, o.message)
	}
	if o.stalled {
		conditions.True(list, conditions.Stalled, o.reason, o.message)
		conditions.False(list, conditions.Progressing, o.reason, o.message)
	}
}
