package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"windlass.dev/windlass/pkg/cache/lenient"
)

// TestClassify has a case for each Outcome, and for errors that could be confused with another Outcome.
func TestClassify(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	broken := errors.New("broken")
	conflict := apierrors.NewConflict(pods, "p", broken)
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", nil)
	terminating := apierrors.NewForbidden(pods, "p", errors.New("the namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	doing := func(err error) error { return fmt.Errorf("creating Pod: %w", err) }
	tested := sets.New[Outcome]()

	for name, test := range map[string]struct {
		result Result
		err    error
		want   decision
		failed bool // logged and counted as an error
	}{
		"nothing left to do": {
			want: decision{outcome: "success", retry: retryOnChange},
		},
		"a RequeueAfter without Check is urgent": {
			result: Result{RequeueAfter: time.Minute},
			want:   decision{outcome: "requeue_after", retry: retryAfter, after: time.Minute, lane: Urgent},
		},
		"an error without a reason has the default reason": {
			err: broken, failed: true,
			want: decision{outcome: "error", retry: retryWithBackoff, reason: "ReconcileError", message: "broken"},
		},
		"a reason of the kind precedes the reason of the API server": {
			err: doing(WithReason("NoPermission", apierrors.NewForbidden(pods, "p", broken))), failed: true,
			want: decision{
				outcome: "error", retry: retryWithBackoff, reason: "NoPermission",
				message: `creating Pod: pods "p" is forbidden: broken`,
			},
		},
		"AlreadyExists is an error and not a conflict": {
			err: doing(apierrors.NewAlreadyExists(pods, "p")), failed: true,
			want: decision{
				outcome: "error", retry: retryWithBackoff, reason: "AlreadyExists",
				message: `creating Pod: pods "p" already exists`,
			},
		},
		"a deadline is an error": {
			err: doing(context.DeadlineExceeded), failed: true,
			want: decision{
				outcome: "error", retry: retryWithBackoff, reason: "ReconcileError",
				message: "creating Pod: context deadline exceeded",
			},
		},
		"a conflict is quiet": {
			err:  doing(conflict),
			want: decision{outcome: "conflict", retry: retryQuickly, quiet: true},
		},
		"an unreadable object is retried when it changes": {
			err: &Unreadable{lenient.Mark{Reason: "Unreadable"}, "Field spec cannot be read."},
			want: decision{
				outcome: "degraded", retry: retryOnChange, lane: Background, degraded: true, stalled: true,
				reason: "Unreadable", message: "Field spec cannot be read.",
			},
		},
		"an object that exceeds the cache budget is retried each minute": {
			err: &Unreadable{lenient.Mark{Reason: lenient.ReasonBudgetExceeded}, "There is no room."},
			want: decision{
				outcome: "degraded", retry: retryAfter, after: time.Minute, lane: Background, degraded: true, stalled: true,
				reason: "NamespaceBudgetExceeded", message: "There is no room.",
			},
		},
		"a postponed reconcile is quiet": {
			err:  doing(Postpone(time.Second)),
			want: decision{outcome: "postponed", retry: retryAfter, after: time.Second, quiet: true},
		},
		"an outdated cache is a conflict": {
			err:  fmt.Errorf("waiting: %w", errBehind),
			want: decision{outcome: "conflict", retry: retryQuickly, quiet: true},
		},
		"a reconcile that the end of the process interrupted is quiet": {
			err:  doing(context.Canceled),
			want: decision{outcome: "postponed", retry: retryWithBackoff, quiet: true},
		},
		"a write into a namespace that is being deleted is quiet": {
			err:  doing(terminating),
			want: decision{outcome: "postponed", retry: retryWithBackoff, quiet: true},
		},
		"a wait is not logged as an error": {
			err: WaitFor("NoSecret", "There is no Secret.", 5*time.Second),
			want: decision{
				outcome: "wait", retry: retryAfter, after: 5 * time.Second, reason: "NoSecret", message: "There is no Secret.",
			},
		},
		"a wrapped wait keeps the message of the kind": {
			err: doing(WaitFor("NoSecret", "There is no Secret.", 5*time.Second)),
			want: decision{
				outcome: "wait", retry: retryAfter, after: 5 * time.Second, reason: "NoSecret", message: "There is no Secret.",
			},
		},
		"a wait without a time is retried on a change": {
			err:  WaitFor("NoSecret", "There is no Secret.", 0),
			want: decision{outcome: "wait", retry: retryOnChange, reason: "NoSecret", message: "There is no Secret."},
		},
		"a write that was rejected as invalid is retried after 5 min": {
			err: doing(invalid), failed: true,
			want: decision{
				outcome: "degraded", retry: retryAfter, after: 5 * time.Minute, reason: "Invalid",
				message: `creating Pod: Pod "p" is invalid`, degraded: true,
			},
		},
		"Stalled without a time is retried on a change": {
			err: Stalled(broken, 0), failed: true,
			want: decision{
				outcome: "degraded", retry: retryOnChange, reason: "ReconcileError", message: "broken",
				degraded: true, stalled: true,
			},
		},
		"Stalled has the reason of the error around it": {
			err: WithReason("NameConflict", Stalled(broken, 0)), failed: true,
			want: decision{
				outcome: "degraded", retry: retryOnChange, reason: "NameConflict", message: "broken", degraded: true, stalled: true,
			},
		},
		"Stalled precedes the conflict that it wraps": {
			err: Stalled(doing(conflict), 0), failed: true,
			want: decision{
				outcome: "degraded", retry: retryOnChange, degraded: true, stalled: true,
				reason: "Conflict", message: `creating Pod: Operation cannot be fulfilled on pods "p": broken`,
			},
		},
		"Stalled is retried after its time": {
			err: Stalled(WithReason("NameConflict", broken), 30*time.Second), failed: true,
			want: decision{
				outcome: "degraded", retry: retryAfter, after: 30 * time.Second, reason: "NameConflict", message: "broken",
				degraded: true, stalled: true,
			},
		},
		"Unstalled keeps the retry of Stalled": {
			err: Unstalled(Stalled(WithReason("NameConflict", broken), time.Second)), failed: true,
			want: decision{
				outcome: "degraded", retry: retryAfter, after: time.Second, reason: "NameConflict", message: "broken",
				degraded: true,
			},
		},
		"Unstalled changes no other error": {
			err: Unstalled(broken), failed: true,
			want: decision{outcome: "error", retry: retryWithBackoff, reason: "ReconcileError", message: "broken"},
		},
		"a reason that the API server would reject is replaced": {
			err: &apierrors.StatusError{ErrStatus: metav1.Status{Reason: "toys must be green", Message: "denied"}}, failed: true,
			want: decision{outcome: "error", retry: retryWithBackoff, reason: "ReconcileError", message: "denied"},
		},
		"a wait without a reason has the default reason": {
			err:  WaitFor("", "There is no brush.", 0),
			want: decision{outcome: "wait", retry: retryOnChange, reason: "ReconcileError", message: "There is no brush."},
		},
		"a panic is an error": {
			err: &panicError{value: "oops"}, failed: true,
			want: decision{outcome: "error", retry: retryWithBackoff, reason: "Panic", message: "panic: oops"},
		},
	} {
		tested.Insert(test.want.outcome)
		t.Run(name, func(t *testing.T) {
			got := classify(test.result, test.err)
			if (got.err != nil) != test.failed || test.failed && !errors.Is(test.err, got.err) {
				t.Errorf("the error to log is %v", got.err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(decision{}),
				cmpopts.IgnoreFields(decision{}, "err")); diff != "" {
				t.Errorf("wanted (-), got (+):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(sets.List(sets.New(outcomes...)), sets.List(tested)); diff != "" {
		t.Errorf("documented (-), tested (+):\n%s", diff)
	}
}

func TestWorst(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	// In the order in which Worst prefers them.
	all := []error{
		fmt.Errorf("updating Pod: %w", apierrors.NewConflict(pods, "p", errors.New("changed"))),
		errors.New("broken"),
		Stalled(errors.New("taken"), time.Second),
		Stalled(errors.New("rejected"), time.Minute),
		Stalled(errors.New("never"), 0),
		WaitFor("Missing", "Waiting.", time.Minute),
		Postpone(time.Second),
	}
	for i := range all {
		for j := i; j < len(all); j++ {
			for _, errs := range [][]error{{all[i], nil, all[j]}, {all[j], all[i]}} {
				if got := Worst(errs...); !errors.Is(got, all[i]) {
					t.Errorf("of %v it is %v", errs, got)
				}
			}
		}
	}
	if got := Worst(nil, nil); got != nil {
		t.Errorf("of none it is %v", got)
	}
}
