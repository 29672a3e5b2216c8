package controller

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/cache/lenient"
)

// invalidRetry is the time until a retry after the API server rejected a write as invalid. A change of the object
// causes a reconcile at once.
const invalidRetry = 5 * time.Minute

// classify decides what follows a reconcile. A worker calls classify to decide when the next reconcile starts. For the
// status, the pipeline calls classifyForStatus, which differs only in degraded.
//
// An unstalledError and a warnError come first, because errors.As also finds the error that they wrap. A decision
// without a retry or a lane has the zero values retryOnChange and Background.
func classify(result Result, err error) decision {
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
		d := classify(result, unstalled.err)
		d.stalled = false
		return d
	case errors.As(err, &warned):
		d := classify(result, warned.err)
		d.warn = true
		return d
	case errors.As(err, &joined):
		return joined.decision()
	case errors.Is(err, context.Canceled):
		return decision{outcome: OutcomePostponed, retry: retryWithBackoff, quiet: true}
	case errors.As(err, &postponed):
		return decision{outcome: OutcomePostponed, quiet: true}.retriedAfter(postponed.after)
	case errors.As(err, &unread):
		d := decision{outcome: OutcomeDegraded, degraded: true, stalled: true, reason: unread.Reason, message: unread.Message}
		if unread.Reason == lenient.ReasonBudgetExceeded {
			return d.retriedAfter(unreadableRecheck)
		}
		return d
	case errors.As(err, &panicked):
		return failed("Panic", err)
	case errors.As(err, &stalled):
		d := decision{
			outcome: OutcomeDegraded, err: err, degraded: true, stalled: true, reason: ReasonOf(err), message: err.Error(),
		}
		return d.retriedAfter(stalled.after)
	case errors.As(err, &wait):
		d := decision{outcome: OutcomeWait, reason: ReasonOf(wait), message: wait.message}
		if wait.after == Soon {
			d.lane = Urgent
		}
		return d.retriedAfter(wait.after)
	case errors.Is(err, errBehind), apierrors.IsConflict(err):
		return decision{outcome: OutcomeConflict, retry: retryQuickly, quiet: true}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// Nothing can be created in this namespace any more. The namespace controller soon deletes the object itself.
		return decision{outcome: OutcomePostponed, retry: retryWithBackoff, quiet: true}
	case apierrors.IsInvalid(err):
		return decision{
			outcome: OutcomeDegraded, retry: retryAfter, after: invalidRetry, err: err, degraded: true, reason: ReasonOf(err),
			message: err.Error(),
		}
	default:
		return failed(ReasonOf(err), err)
	}
}

// classifyForStatus returns the decision that the status of obj follows from. If obj is being deleted, it also sets
// degraded for an error of the finalization, and for an error of Warn. Otherwise nothing would tell a user why the
// object does not disappear. Other waits, for example for the deletion of children, do not set degraded.
func classifyForStatus(obj metav1.Object, result Result, err error) decision {
	d := classify(result, err)
	if obj.GetDeletionTimestamp() != nil && (d.err != nil || d.warn) {
		d.degraded = true
	}
	return d
}

// succeeded returns the decision after a reconcile without an error.
func succeeded(result Result) decision {
	switch {
	case result.RequeueAfter <= 0:
		return decision{outcome: OutcomeSuccess}
	case result.Check:
		return decision{outcome: OutcomeRequeueAfter, retry: retryAfter, after: result.RequeueAfter, lane: Background}
	default:
		return decision{outcome: OutcomeRequeueAfter, retry: retryAfter, after: result.RequeueAfter, lane: Urgent}
	}
}

func failed(reason string, err error) decision {
	return decision{outcome: OutcomeError, retry: retryWithBackoff, err: err, reason: reason, message: err.Error()}
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
		return cmp.Or(cmp.Compare(x.rank(), y.rank()), cmp.Compare(x.retryDelay(), y.retryDelay()))
	})
}

// IsDryRunUnsupported reports whether the API server rejected a dry run because of an admission webhook that does not
// support dry runs (k8s.io/apiserver, pkg/admission/plugin/webhook/errors).
func IsDryRunUnsupported(err error) bool {
	return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run")
}

// Quiet reports whether an error says nothing about the object. The engine then does not write the status.
func Quiet(err error) bool { return classify(Result{}, err).quiet }

// Degrades reports whether the engine sets Degraded on obj for an error. Kinds use the result for status.phase.
func Degrades(obj metav1.Object, err error) bool {
	return classifyForStatus(obj, Result{}, err).degraded
}
