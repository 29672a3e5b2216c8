package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestJoinedErrorsHaveWorstOutcomeAndAllMessages(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Ingress"}, "web", nil)
	taken := Stalled(WithReason("NameConflict", errors.New("taken")), 30*time.Second)
	never := Stalled(WithReason("NameConflict", errors.New("taken")), 0)
	waiting := WaitFor("Terminating", "It is being deleted.", 5*time.Second)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "services"}, "web", errors.New("changed"))
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		errs []error
		want decision
	}{
		"a single error stays as it is": {
			[]error{nil, taken}, decision{
				outcome: "degraded", retry: retryAfter, after: 30 * time.Second, reason: "NameConflict", message: "taken",
				degraded: true, stalled: true,
			},
		},
		"two waits are joined to a wait": {
			[]error{waiting, WaitFor("Missing", "Waiting.", time.Minute)}, decision{
				outcome: "wait", retry: retryAfter, after: 5 * time.Second, reason: "Terminating",
				message: "It is being deleted; Waiting",
			},
		},
		"a failure and a wait have both messages": {
			[]error{waiting, invalid}, decision{
				outcome: "degraded", retry: retryAfter, after: invalidRetry, reason: "Invalid",
				message: `It is being deleted; Ingress "web" is invalid`, degraded: true,
			},
		},
		"the earlier retry wins": {
			[]error{invalid, taken}, decision{
				outcome: "degraded", retry: retryAfter, after: 30 * time.Second, reason: "NameConflict",
				message: `Ingress "web" is invalid; taken`, degraded: true, stalled: true,
			},
		},
		"Stalled stays, although the other error has a retry": {
			[]error{invalid, never}, decision{
				outcome: "degraded", retry: retryAfter, after: invalidRetry, reason: "Invalid",
				message: `Ingress "web" is invalid; taken`, degraded: true, stalled: true,
			},
		},
		"backoff keeps Stalled": {
			[]error{never, broken}, decision{
				outcome: "error", retry: retryWithBackoff, reason: "ReconcileError", message: "taken; broken",
				degraded: true, stalled: true,
			},
		},
		"a Warning stays": {
			[]error{Warn(waiting), waiting}, decision{
				outcome: "wait", retry: retryAfter, after: 5 * time.Second, reason: "Terminating",
				message: "It is being deleted; It is being deleted", warn: true,
			},
		},
		"a conflict is quiet": {[]error{taken, conflict}, decision{outcome: "conflict", retry: retryQuickly, quiet: true}},
		"an interrupted reconcile is quiet": {
			[]error{context.Canceled, invalid}, decision{outcome: "postponed", retry: retryWithBackoff, quiet: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			joined := Join(c.errs...)
			got := classify(Result{}, joined)
			diff := cmp.Diff(c.want, got, cmp.AllowUnexported(decision{}), cmpopts.IgnoreFields(decision{}, "err"))
			if diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if logged := got.err; logged != nil && logged.Error() != c.want.message {
				t.Errorf("the log says %q", logged)
			}
			if reason := ReasonOf(joined); !got.quiet && reason != c.want.reason {
				t.Errorf("ReasonOf returns %s", reason)
			}
		})
	}
	if err := Join(nil, nil); err != nil {
		t.Errorf("of none it is %v", err)
	}
}

func TestLongMessageLeavesRoomForOthers(t *testing.T) {
	said := Join(errors.New(strings.Repeat("ä", 40000)), errors.New("taken")).Error()
	if len(said) > 2*maxPart || !strings.HasSuffix(said, "…; taken") {
		t.Errorf("a message of %d bytes ends in %q", len(said), said[max(0, len(said)-20):])
	}
}
