package pods

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/controller"
)

// ShortestRejection and LongestRejection bound the delay before the operator retries the creation of a rejected Pod.
// The delay is as long as the time since the first rejection.
const (
	ShortestRejection = time.Second
	LongestRejection  = 5 * time.Minute
)

// maxRejection limits the message of the API server, in bytes.
const maxRejection = 1 << 10

// IsRejection reports whether the API server rejected a Pod, for example because of Pod Security, a quota or a policy.
// It returns false if the namespace is being deleted, because the owner of the Pod is then deleted too.
func IsRejection(err error) bool {
	rejected := apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || err != nil && callsWebhook(err.Error())
	return rejected && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// IsUndecided reports whether err, from a dry-run creation of a Pod, leaves open whether the API server would accept
// the Pod. The cause is an admission webhook that does not support dry run, or an operator that may not create Pods
// (k8s.io/apiserver, pkg/endpoints/handlers/responsewriters).
func IsUndecided(err error) bool {
	return controller.IsDryRunUnsupported(err) ||
		apierrors.IsForbidden(err) && strings.Contains(err.Error(), `cannot create resource "pods"`)
}

// callsWebhook reports whether a message of the API server names an admission webhook that does not respond.
func callsWebhook(said string) bool { return strings.Contains(said, "failed calling webhook") }

// limitsResources reports whether a message of the API server is about the resources of containers: a LimitRange has
// other limits, or its defaults do not fit, or a quota requires requests and limits (k8s.io/kubernetes,
// plugin/pkg/admission/limitranger, and k8s.io/apiserver, pkg/admission/plugin/resourcequota).
func limitsResources(said string) bool {
	about := []string{
		"usage per Container", "usage per Pod", "limit to request ratio per", "failed quota: ", "].resources.",
	}
	return slices.ContainsFunc(about, func(words string) bool { return strings.Contains(said, words) })
}

// exceedsQuota reports whether a message of the API server names an exceeded quota, which has room again after other
// Pods end.
func exceedsQuota(said string) bool { return strings.Contains(said, "exceeded quota") }

// ViolatesPodSecurity reports whether a Pod was rejected because of the Pod Security Standard of its namespace.
func ViolatesPodSecurity(err error) bool {
	return strings.Contains(err.Error(), "violates PodSecurity")
}

// Rejected returns the error of a reconcile whose Pod the API server rejected with err. The message is that of
// RejectedNote. It ends with advice or, if advice is "", with general advice. The next reconcile starts after the given
// time. The error is Stalled, unless the API server may accept the Pod without a change by a user: after other Pods
// have ended, or when a webhook responds again.
func Rejected(pod string, err error, advice string, after time.Duration) error {
	said, advice := explained(err.Error(), advice)
	if exceedsQuota(err.Error()) || callsWebhook(err.Error()) {
		return messageRejected.Wait(after, pod, said, advice, LongestRejection)
	}
	return controller.Stalled(messageRejected.Error(pod, said, advice, LongestRejection), after)
}

// RejectedNote returns the reason and message about a Pod that the API server rejected with err. The message has the
// message of err, followed by general advice.
func RejectedNote(pod string, err error) controller.Note {
	said, advice := explained(err.Error(), "")
	return messageRejected.Note(pod, said, advice, LongestRejection)
}

// RejectedPodsNote is RejectedNote for the Pods of a Deployment. said is the message of the API server.
func RejectedPodsNote(deployment, said string) controller.Note {
	advice := ""
	if exceedsQuota(said) {
		advice = adviceForRollouts.With()
	}
	said, advice = explained(said, advice)
	return messageRejectedPods.Note(deployment, said, advice)
}

// explained returns said, the message of the API server about a rejected Pod, truncated to maxRejection, and advice for
// the user. It returns general advice if advice is "".
func explained(said, advice string) (words, do string) {
	switch {
	case advice != "":
	case exceedsQuota(said):
		advice = adviceForQuota.With()
	case limitsResources(said):
		advice = adviceForResources.With()
	case callsWebhook(said):
		advice = adviceForWebhooks.With()
	default:
		advice = adviceForRejections.With()
	}
	if len(said) > maxRejection {
		said = strings.ToValidUTF8(said[:maxRejection], "") + "…"
	}
	return said, advice
}
