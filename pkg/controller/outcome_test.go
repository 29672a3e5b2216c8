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
		want   outcome
		failed bool // logged and counted as an error
	}{
		"nothing left to do": {
			want: outcome{name: "success", retry: onChange},
		},
		"a time is a promise, and urgent": {
			result: Result{RequeueAfter: time.Minute},
			want:   outcome{name: "requeue_after", retry: after, after: time.Minute, lane: Urgent},
		},
		"an error has the reason of all errors": {
			err: broken, failed: true,
			want: outcome{name: "error", retry: backoff, reason: "ReconcileError", message: "broken"},
		},
		"an error has the kind's reason before that of the API server": {
			err: doing(WithReason("NoRights", apierrors.NewForbidden(pods, "p", broken))), failed: true,
			want: outcome{
				name: "error", retry: backoff, reason: "NoRights", message: `creating Pod: pods "p" is forbidden: broken`,
			},
		},
		"a name that is taken is an error, no conflict": {
			err: doing(apierrors.NewAlreadyExists(pods, "p")), failed: true,
			want: outcome{
				name: "error", retry: backoff, reason: "AlreadyExists", message: `creating Pod: pods "p" already exists`,
			},
		},
		"a deadline is an error": {
			err: doing(context.DeadlineExceeded), failed: true,
			want: outcome{
				name: "error", retry: backoff, reason: "ReconcileError", message: "creating Pod: context deadline exceeded",
			},
		},
		"a conflict is quiet": {
			err:  doing(conflict),
			want: outcome{name: "conflict", retry: quickly, quiet: true},
		},
		"an object that cannot be read waits for a change": {
			err: &Unreadable{lenient.Mark{Reason: "Unreadable"}, "Field spec cannot be read."},
			want: outcome{
				name: "degraded", retry: onChange, lane: Background, degraded: true, stalled: true,
				reason: "Unreadable", message: "Field spec cannot be read.",
			},
		},
		"an object that exceeded its budget is looked at again": {
			err: &Unreadable{lenient.Mark{Reason: lenient.ReasonBudgetExceeded}, "There is no room."},
			want: outcome{
				name: "degraded", retry: after, after: time.Minute, lane: Background, degraded: true, stalled: true,
				reason: "NamespaceBudgetExceeded", message: "There is no room.",
			},
		},
		"a pass that is postponed is quiet": {
			err:  doing(Postpone(time.Second)),
			want: outcome{name: "postponed", retry: after, after: time.Second, quiet: true},
		},
		"a cache that is behind is quiet": {
			err:  fmt.Errorf("waiting: %w", errBehind),
			want: outcome{name: "conflict", retry: quickly, quiet: true},
		},
		"a pass that was called off is quiet": {
			err:  doing(context.Canceled),
			want: outcome{name: "postponed", retry: backoff, quiet: true},
		},
		"a namespace that ends is quiet": {
			err:  doing(terminating),
			want: outcome{name: "postponed", retry: backoff, quiet: true},
		},
		"a wait is no failure": {
			err: WaitFor("NoSecret", "There is no Secret.", 5*time.Second),
			want: outcome{
				name: "wait", retry: after, after: 5 * time.Second, reason: "NoSecret", message: "There is no Secret.",
			},
		},
		"a wait says what the kind said, whatever is around it": {
			err: doing(WaitFor("NoSecret", "There is no Secret.", 5*time.Second)),
			want: outcome{
				name: "wait", retry: after, after: 5 * time.Second, reason: "NoSecret", message: "There is no Secret.",
			},
		},
		"a wait without a time is for a change": {
			err:  WaitFor("NoSecret", "There is no Secret.", 0),
			want: outcome{name: "wait", retry: onChange, reason: "NoSecret", message: "There is no Secret."},
		},
		"what the API server calls invalid is tried again after 5 min": {
			err: doing(invalid), failed: true,
			want: outcome{
				name: "degraded", retry: after, after: 5 * time.Minute, reason: "Invalid",
				message: `creating Pod: Pod "p" is invalid`, degraded: true,
			},
		},
		"Stalled without a time is tried again on a change": {
			err: Stalled(broken, 0), failed: true,
			want: outcome{
				name: "degraded", retry: onChange, reason: "ReconcileError", message: "broken", degraded: true, stalled: true,
			},
		},
		"Stalled with a reason on the outside": {
			err: WithReason("NameConflict", Stalled(broken, 0)), failed: true,
			want: outcome{
				name: "degraded", retry: onChange, reason: "NameConflict", message: "broken", degraded: true, stalled: true,
			},
		},
		"Stalled goes before what it wraps": {
			err: Stalled(doing(conflict), 0), failed: true,
			want: outcome{
				name: "degraded", retry: onChange, degraded: true, stalled: true,
				reason: "Conflict", message: `creating Pod: Operation cannot be fulfilled on pods "p": broken`,
			},
		},
		"Stalled is tried again after its time": {
			err: Stalled(WithReason("NameConflict", broken), 30*time.Second), failed: true,
			want: outcome{
				name: "degraded", retry: after, after: 30 * time.Second, reason: "NameConflict", message: "broken",
				degraded: true, stalled: true,
			},
		},
		"Unstalled keeps the retry of Stalled": {
			err: Unstalled(Stalled(WithReason("NameConflict", broken), time.Second)), failed: true,
			want: outcome{
				name: "degraded", retry: after, after: time.Second, reason: "NameConflict", message: "broken", degraded: true,
			},
		},
		"Unstalled changes no other error": {
			err: Unstalled(broken), failed: true,
			want: outcome{name: "error", retry: backoff, reason: "ReconcileError", message: "broken"},
		},
		"a reason that the API server would reject is replaced": {
			err: &apierrors.StatusError{ErrStatus: metav1.Status{Reason: "toys must be green", Message: "denied"}}, failed: true,
			want: outcome{name: "error", retry: backoff, reason: "ReconcileError", message: "denied"},
		},
		"a wait without a reason gets one": {
			err:  WaitFor("", "There is no brush.", 0),
			want: outcome{name: "wait", retry: onChange, reason: "ReconcileError", message: "There is no brush."},
		},
		"a panic is an error": {
			err: &panicError{value: "oops"}, failed: true,
			want: outcome{name: "error", retry: backoff, reason: "Panic", message: "panic: oops"},
		},
	} {
		tested.Insert(test.want.name)
		t.Run(name, func(t *testing.T) {
			got := classify(test.result, test.err)
			if (got.err != nil) != test.failed || test.failed && !errors.Is(test.err, got.err) {
				t.Errorf("the error to log is %v", got.err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(outcome{}),
				cmpopts.IgnoreFields(outcome{}, "err")); diff != "" {
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
		Stalled(errors.New("refused"), time.Minute),
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
