package at

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
)

// The creation of a rejected Pod is retried after the time for which it has been rejected so far,
// within these bounds.
const (
	shortestRefusal = time.Second
	longestRefusal  = 5 * time.Minute
)

// maxRefusal is how many bytes of the API server's message are kept.
const maxRefusal = 1 << 10

// isRefusal reports whether admission rejected the Pod: Pod Security, a quota, or a policy. A
// namespace that is being deleted is none of these: the At is deleted with it.
func isRefusal(err error) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// refused sets the conditions of an At whose Pod is rejected, and returns the error of the
// reconcile. The phase stays Running, because phases only move forward.
func (r *reconciler) refused(at *v1.At, last controller.Refusal) error {
	now := r.clock.Now()
	after := last.Until.Sub(now)
	if left, limited := remaining(at, now); limited {
		after = min(after, left)
	}
	message := refusalMessage(at, last.Err)
	summarize(at, controller.StateProgressing, reasonRefused, message)
	if strings.Contains(last.Err.Error(), "exceeded quota") {
		return controller.WaitFor(reasonRefused, message, after) // the end of other Pods makes room
	}
	return controller.Stalled(controller.WithReason(reasonRefused, fmt.Errorf("%s", message)), after)
}

// refusalMessage returns the message of the API server, and what to do about it.
func refusalMessage(at *v1.At, err error) string {
	said := err.Error()
	if len(said) > maxRefusal {
		said = strings.ToValidUTF8(said[:maxRefusal], "") + "…"
	}
	advice := "Ask the administrator of the namespace which Pods it admits"
	switch {
	case strings.Contains(said, "violates PodSecurity") && !restricted(at):
		advice = "Set spec.restricted to true"
	case strings.Contains(said, "exceeded quota"):
		advice = "Raise the quota, or wait until other Pods have ended"
	}
	return fmt.Sprintf("The API server refuses Pod %s: %s. %s; it is tried again within %v.", podName(at), said, advice, longestRefusal)
}
