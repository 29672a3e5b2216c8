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

	"windlass.dev/windlass/pkg/cache/lenient"
)

// invalidRetry is the time until a retry after the API server rejected a write as invalid. A change of the object
// causes a reconcile at once.
const invalidRetry = 5 * time.Minute

// classify returns the outcome of a reconcile. A worker calls classify to decide when the next reconcile starts. For
// the status, the pipeline calls conclude, which differs only in degraded.
//
// An unstalledError and a warnError come first, because errors.As also finds the error that they wrap. An outcome
// without a retry or a lane has the zero values onChange and Background.
func classify(result Result, err error) outcome {
	var (
		unstalled *unstalledError
		warned    *warnError
		joined    *joinedError
		panicked  *panicError
		postponed postponeError
		stalled   *stalledError
		wait      *waitError
		unread    *Unreadable
	)
	switch {
	case err == nil:
		return succeeded(result)
	case errors.As(err, &unstalled):
		o := classify(result, unstalled.err)
		o.stalled = false
		return o
	case errors.As(err, &warned):
		o := classify(result, warned.err)
		o.warn = true
		return o
	case errors.As(err, &joined):
		return joined.outcome()
	case errors.Is(err, context.Canceled):
		return outcome{name: OutcomePostponed, retry: backoff, quiet: true}
	case errors.As(err, &postponed):
		return outcome{name: OutcomePostponed, quiet: true}.in(postponed.after)
	case errors.As(err, &unread):
		o := outcome{name: OutcomeDegraded, degraded: true, stalled: true, reason: unread.Reason, message: unread.Message}
		if unread.Reason == lenient.ReasonBudgetExceeded {
			return o.in(unreadableRecheck)
		}
		return o
	case errors.As(err, &panicked):
		return failed("Panic", err)
	case errors.As(err, &stalled):
		o := outcome{
			name: OutcomeDegraded, err: err, degraded: true, stalled: true, reason: ReasonOf(err), message: err.Error(),
		}
		return o.in(stalled.after)
	case errors.As(err, &wait):
		o := outcome{name: OutcomeWait, reason: ReasonOf(wait), message: wait.message}
		if wait.after == Soon {
			o.lane = Urgent
		}
		return o.in(wait.after)
	case errors.Is(err, errBehind), apierrors.IsConflict(err):
		return outcome{name: OutcomeConflict, retry: quickly, quiet: true}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// Nothing can be created in this namespace any more. The namespace controller soon deletes the object itself.
		return outcome{name: OutcomePostponed, retry: backoff, quiet: true}
	case apierrors.IsInvalid(err):
		return outcome{
			name: OutcomeDegraded, retry: after, after: invalidRetry, err: err, degraded: true, reason: ReasonOf(err),
			message: err.Error(),
		}
	default:
		return failed(ReasonOf(err), err)
	}
}

// succeeded returns the outcome of a reconcile without an error.
func succeeded(result Result) outcome {
	switch {
	case result.RequeueAfter <= 0:
		return outcome{name: OutcomeSuccess}
	case result.Check:
		return outcome{name: OutcomeRequeueAfter, retry: after, after: result.RequeueAfter, lane: Background}
	default:
		return outcome{name: OutcomeRequeueAfter, retry: after, after: result.RequeueAfter, lane: Urgent}
	}
}

// conclude returns the outcome of a reconcile for the status of obj. If obj is being deleted, conclude also sets
// degraded for an error of the finalization, and for an error of Warn. Otherwise nothing would tell a user why the
// object does not disappear. Other waits, for example for the deletion of children, do not set degraded.
func conclude(obj metav1.Object, result Result, err error) outcome {
	o := classify(result, err)
	if obj.GetDeletionTimestamp() != nil && (o.err != nil || o.warn) {
		o.degraded = true
	}
	return o
}

// Worst returns the error that a reconcile should return if several of its parts failed: the error of the lowest rank.
// Among errors of the same rank, it prefers the error with the earliest retry. It returns nil if all errors are nil.
func Worst(errs ...error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return slices.MinFunc(errs, func(a, b error) int {
		x, y := classify(Result{}, a), classify(Result{}, b)
		return cmp.Or(cmp.Compare(x.rank(), y.rank()), cmp.Compare(x.wait(), y.wait()))
	})
}

// rank orders outcomes. Of several outcomes, the outcome with the lowest rank decides. A conflict has the lowest rank,
// because the other errors may come from the outdated cache.
func (o outcome) rank() int {
	switch {
	case o.retry == quickly:
		return 0
	case o.retry == backoff:
		return 1
	case o.err != nil: // a Stalled error, or a write that the API server rejected as invalid
		return 2
	case !o.quiet: // an error of WaitFor
		return 3
	default: // an error of Postpone
		return 4
	}
}

// wait returns the time until the retry of an outcome, or the longest possible time if the outcome is
// retried only when something changes.
func (o outcome) wait() time.Duration {
	if o.retry == onChange {
		return math.MaxInt64
	}
	return o.after
}

// Quiet reports whether an error says nothing about the object. The engine then does not write the status.
func Quiet(err error) bool { return classify(Result{}, err).quiet }

// Degrades reports whether the engine sets Degraded on obj for an error. Kinds use the result for status.phase.
func Degrades(obj metav1.Object, err error) bool { return conclude(obj, Result{}, err).degraded }
