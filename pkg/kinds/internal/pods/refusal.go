package pods

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/controller"
)

// ShortestRefusal and LongestRefusal bound the delay before the operator retries the creation of a rejected
// Pod. The delay is as long as the time since the first rejection.
const (
	ShortestRefusal = time.Second
	LongestRefusal  = 5 * time.Minute
)

// maxRefusal limits the message of the API server, in bytes.
const maxRefusal = 1 << 10

// IsRefusal reports whether the API server rejected a Pod, for example because of Pod Security, a quota
// or a policy. It returns false if the namespace is being deleted, because the owner of the Pod is then
// deleted too.
func IsRefusal(err error) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// exceedsQuota reports whether a Pod was rejected because of a quota, which has room when other Pods end.
func exceedsQuota(err error) bool { return strings.Contains(err.Error(), "exceeded quota") }

// ViolatesPodSecurity reports whether a Pod was rejected because of the Pod Security Standard of its namespace.
func ViolatesPodSecurity(err error) bool {
	return strings.Contains(err.Error(), "violates PodSecurity")
}

// Refused returns the error of a reconcile whose Pod the API server rejected with err. Its message has the words of the
// API server, followed by advice. The advice is "" if the kind knows none. The next reconcile starts after the given
// time. The object becomes Stalled, unless a quota is exceeded: there is room again when other Pods end.
func Refused(pod string, err error, advice string, after time.Duration) error {
	said := err.Error()
	if len(said) > maxRefusal {
		said = strings.ToValidUTF8(said[:maxRefusal], "") + "…"
	}
	switch {
	case advice != "":
	case exceedsQuota(err):
		advice = adviceForQuota.With()
	default:
		advice = adviceForRefusals.With()
	}
	if exceedsQuota(err) {
		return messageRefused.Wait(after, pod, said, advice, LongestRefusal)
	}
	return controller.Stalled(messageRefused.Error(pod, said, advice, LongestRefusal), after)
}
