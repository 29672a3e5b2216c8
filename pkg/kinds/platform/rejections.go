package platform

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

const (
	// invalidRetry is the delay before the operator repeats a request that the API server rejected as invalid.
	// forbiddenRetry is the delay after the API server forbade a request, for example because of a quota. There is no
	// delay if the Platform or the child has changed.
	invalidRetry   = 5 * time.Minute
	forbiddenRetry = 30 * time.Second
)

// noComponent stands for the namespace, which belongs to no component.
const noComponent = ""

// attempt identifies a step that the operator tried, and the versions of the Platform and of the child at that
// time. The creation of the namespace is the attempt with the zero value.
type attempt struct {
	verb       verb
	generation int64 // of the Platform
	child      string
}

// attemptOf returns the attempt of a component's current step.
func attemptOf(platform *v1alpha1.Platform, c *component) attempt {
	a := attempt{verb: c.step.verb, generation: platform.Generation}
	if c.child != nil {
		a.child = fmt.Sprint(c.child.GetUID(), c.child.GetGeneration())
	}
	return a
}

// noteRejection remembers a rejection err of the attempt of, so that the operator does not repeat the attempt at once.
// It ignores other errors.
func (r *reconciler) noteRejection(platform *v1alpha1.Platform, component string, of attempt, err error) {
	var retry time.Duration
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return // the deletion of the namespace causes an event
	case apierrors.IsInvalid(err):
		retry = invalidRetry
	case apierrors.IsForbidden(err):
		retry = forbiddenRetry
	default:
		return
	}
	r.rejections.Note(platform.UID, component, of, err, retry, retry)
}
