package pods

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// ExceedsQuota reports whether a Pod was rejected because of a quota, which has room when other Pods end.
func ExceedsQuota(err error) bool { return strings.Contains(err.Error(), "exceeded quota") }

// ViolatesPodSecurity reports whether a Pod was rejected because of the Pod Security Standard of its namespace.
func ViolatesPodSecurity(err error) bool {
	return strings.Contains(err.Error(), "violates PodSecurity")
}

// RefusalMessage returns the message of the API server that rejected a Pod, followed by advice. The advice is "" if
// the kind knows none.
func RefusalMessage(pod string, err error, advice string) string {
	said := err.Error()
	if len(said) > maxRefusal {
		said = strings.ToValidUTF8(said[:maxRefusal], "") + "…"
	}
	switch {
	case advice != "":
	case ExceedsQuota(err):
		advice = adviceForQuota.With()
	default:
		advice = adviceForRefusals.With()
	}
	return messageRefused.With(pod, said, advice, LongestRefusal)
}
