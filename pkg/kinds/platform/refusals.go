package platform

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

const (
	// invalidRetry is when a child is sent again that the API server refused for what it
	// says, and forbiddenRetry when one that may not be written, as for want of quota. A
	// change of the Platform or of the child comes at once.
	invalidRetry   = 5 * time.Minute
	forbiddenRetry = 30 * time.Second
)

// noComponent stands for the namespace.
const noComponent = ""

// attempt is what was tried: a step, with what the Platform and the child say. There is
// none for the namespace.
type attempt struct {
	verb            verb
	platform, child string
}

// attemptOf is the step that a component is at. The labels of the Platform are its
// children's too, and count in no generation.
func attemptOf(platform *v1alpha1.Platform, c *component) attempt {
	a := attempt{verb: c.step.verb, platform: fmt.Sprint(platform.Generation, platform.Labels)}
	if c.child != nil {
		a.child = fmt.Sprint(c.child.GetUID(), c.child.GetGeneration())
	}
	return a
}

// noteRefusal records an error of an attempt, if it is a refusal.
func (r *reconciler) noteRefusal(platform *v1alpha1.Platform, component string, of attempt, err error) {
	var retry time.Duration
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return // the end of that is an event
	case apierrors.IsInvalid(err):
		retry = invalidRetry
	case apierrors.IsForbidden(err):
		retry = forbiddenRetry
	default:
		return
	}
	r.refusals.Note(platform.UID, component, of, err, retry, retry)
}
