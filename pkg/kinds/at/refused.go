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

// shortestRefusal and longestRefusal bound the delay before the operator retries the creation of a rejected
// Pod. The delay is as long as the time since the first rejection.
const (
	shortestRefusal = time.Second
	longestRefusal  = 5 * time.Minute
)

// maxRefusal limits the message of the API server, in bytes.
const maxRefusal = 1 << 10

// isRefusal reports whether the API server rejected the Pod, for example because of Pod Security, a quota
// or a policy. It returns false if the namespace is being deleted, because the At is then deleted too.
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
		return controller.WaitFor(reasonRefused, message, after) // there is room when other Pods end
	}
	return controller.Stalled(controller.WithReason(reasonRefused, fmt.Errorf("%s", message)), after)
}

// refusalMessage returns the message of the API server, followed by advice.
func refusalMessage(at *v1.At, err error) string {
	said := err.Error()
	if len(said) > maxRefusal {
		said = strings.ToValidUTF8(said[:maxRefusal], "") + "…"
	}
	advice := "Ask the administrator of the namespace which Pods are allowed"
	switch {
	case strings.Contains(said, "violates PodSecurity") && !restricted(at):
		advice = "Delete the At, and create it again with spec.restricted set to true"
	case strings.Contains(said, "exceeded quota"):
		advice = "Raise the quota, or wait until other Pods end"
	}
	return fmt.Sprintf("The API server rejected Pod %s: %s. %s. The operator retries within %v.", podName(at), said, advice, longestRefusal)
}
