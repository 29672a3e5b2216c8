package controller

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Result says when the next reconcile starts after a reconcile without an error.
type Result struct {
	// RequeueAfter is the longest time until the next reconcile. Zero means that the next reconcile
	// starts when something changes, or after the Resync of the kind.
	RequeueAfter time.Duration

	// Check marks the next reconcile as a periodic check, such as a resync, which waits in the background lane,
	// behind the changes of users. If Check is false, the next reconcile waits in the urgent lane.
	Check bool
}

// Soon is the delay of Continue, and of a WaitFor that waits only until the status of the object is stored. It is 5 ms.
const Soon = quickBase

// Continue returns the Result of a reconcile that must continue once the status of the object is stored. The key is
// queued again after 5 ms, and then with a growing delay while the cache lacks the status. Without Continue, no
// reconcile would follow, because the event of a status that this process wrote adds no key.
func Continue() Result { return Result{RequeueAfter: Soon} }

// WaitFor returns the error of a reconcile that waits for a dependency, such as a Secret or a server that is starting.
// The error sets Ready to False with this reason and message. The next reconcile starts as soon as a watched dependency
// changes. If after is positive, the next reconcile starts after this time at the latest. If after is Soon, the next
// reconcile starts as after Continue.
func WaitFor(reason, message string, after time.Duration) error {
	return &waitError{reason: reason, message: message, after: after}
}

// Warn marks an error of WaitFor as a problem that a user should look at: the Event of the transition is a Warning. An
// object that is being deleted also becomes Degraded. The conditions of other objects do not change.
func Warn(err error) error {
	if err == nil {
		return nil
	}
	return &warnError{wrapped{err}}
}

type warnError struct{ wrapped }

// wrapped is an error that another error wraps. It has the methods of that error.
type wrapped struct{ err error }

func (w wrapped) Error() string { return w.err.Error() }
func (w wrapped) Unwrap() error { return w.err }

type waitError struct {
	reason, message string
	after           time.Duration
}

func (e *waitError) Error() string { return e.message }

// Postpone returns the error of a reconcile that learned nothing about its object, for example
// because other reconciles wait for the same server already. The status stays as it is. The next
// reconcile starts after the given time.
func Postpone(after time.Duration) error { return postponeError{after} }

// ErrDeletionNotObserved is the error of a reconcile that got a 404 response for an object that is in the cache. Most
// likely the cache is about to receive the event of the deletion. The cache alone decides whether an object exists, so
// the reconcile is postponed by 5 s.
var ErrDeletionNotObserved = Postpone(deletionRecheck)

// deletionRecheck is how long a reconcile with ErrDeletionNotObserved waits for the event of the deletion.
const deletionRecheck = 5 * time.Second

// postponeError is a value, so that errors.Is finds equal errors.
type postponeError struct{ after time.Duration }

func (e postponeError) Error() string { return "postponed by " + e.after.String() }

// Stalled wraps an error that a user has to fix. The object becomes Degraded and Stalled, and is reconciled again when
// its spec or a dependency changes and, if after is positive, after that time. Use 0 if the fix causes an event.
func Stalled(err error, after time.Duration) error {
	return &stalledError{wrapped{err}, after}
}

// Unstalled wraps a Stalled error that affects only a part of an object. The object becomes
// Degraded, but not Stalled, and is retried as the error says. An error that would not set Stalled keeps
// its outcome.
func Unstalled(err error) error {
	if err == nil {
		return nil
	}
	return &unstalledError{wrapped{err}}
}

type unstalledError struct{ wrapped }

type stalledError struct {
	wrapped
	after time.Duration
}

// WithReason sets the reason that conditions and Events show for an error. reason is an identifier in
// CamelCase. By default, an error of the API server has the reason in its Status, and any other error has
// ReasonError.
func WithReason(reason string, err error) error {
	return &reasonError{wrapped{err}, reason}
}

// ReasonError is the default reason of an error.
const ReasonError = "ReconcileError"

// maxReason is how many bytes the reason of an Event may have (k8s.io/kubernetes,
// pkg/apis/core/validation/events.go).
const maxReason = 128

type reasonError struct {
	wrapped
	reason string
}

// validReason matches the reasons that the API server accepts in a condition. An error may have a
// reason that does not match, for example if an admission webhook denied the request.
var validReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// ReasonOf returns the reason that conditions and Events show for an error. It always returns a valid reason.
func ReasonOf(err error) string {
	var (
		named   *reasonError
		waiting *waitError
		joined  *joinedError
		reason  string
	)
	switch {
	case errors.As(err, &joined):
		return ReasonOf(joined.worst)
	case errors.As(err, &waiting):
		reason = waiting.reason
	case errors.As(err, &named):
		reason = named.reason
	default:
		reason = string(apierrors.ReasonForError(err))
	}
	if len(reason) > maxReason || !validReason.MatchString(reason) {
		return ReasonError
	}
	return reason
}

// panicError is the error of a reconcile that panicked.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// stackOf returns the stack of a panic as a key and a value for the log, and nothing for other
// errors.
func stackOf(err error) []any {
	var panicked *panicError
	if errors.As(err, &panicked) {
		return []any{"stack", string(panicked.stack)}
	}
	return nil
}
