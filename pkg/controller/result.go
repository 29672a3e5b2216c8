package controller

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Result is what a pass without an error asks for.
type Result struct {
	// RequeueAfter, if positive, is when the next pass shall come at the latest.
	// Zero means: when something changes.
	RequeueAfter time.Duration

	// Check says that the next pass is only to look whether all is well: it waits in
	// the background, behind what somebody did. Without it a RequeueAfter is a
	// promise, and urgent.
	Check bool
}

// Continue returns the result of a pass that goes on once its status is stored. The next pass
// comes when the cache has the status, some milliseconds later: the event of a status that the
// operator itself wrote asks for none.
func Continue() Result { return Result{RequeueAfter: quickBase} }

// StoreFirst returns the error of a pass that must not go on before its status is stored, with
// which Ready becomes False. The next pass comes as after Continue.
func StoreFirst(reason, message string) error {
	return &waitError{reason: reason, message: message, after: quickBase, lane: Urgent}
}

// WaitFor returns the error of a pass that found something missing which will
// come: a Secret, a server that is starting. Ready becomes False with this reason
// and message. The next pass comes after the given time, if that is positive, or
// earlier if a watched dependency changes.
func WaitFor(reason, message string, after time.Duration) error {
	return &waitError{reason: reason, message: message, after: after}
}

type waitError struct {
	reason, message string
	after           time.Duration
	lane            Lane
}

func (e *waitError) Error() string { return e.message }

// Postpone returns the error of a pass that found out nothing, since it would have
// waited for what other passes wait for already. It says nothing about the object,
// whose status stays, and the next pass comes after the given time.
func Postpone(after time.Duration) error { return &postponeError{after} }

// AwaitDeletion returns the error of a pass to which the API server has said that there is
// no such object, though the cache has it. Most likely its deletion is about to be in the
// cache, which then decides; the pass concludes nothing, and another comes in 5 s.
func AwaitDeletion() error { return Postpone(deletionRecheck) }

// deletionRecheck is when a deletion is looked for of which no event tells.
const deletionRecheck = 5 * time.Second

type postponeError struct{ after time.Duration }

// Is tells whether two errors postpone a pass by the same.
func (e *postponeError) Is(other error) bool {
	o, ok := other.(*postponeError)
	return ok && *o == *e
}

func (e *postponeError) Error() string { return "postponed by " + e.after.String() }

// throttle returns the error of a pass that was not begun, since its object has used up its
// budget of passes that write something. The next one comes after the given time.
func throttle(after time.Duration) error { return &throttledError{after} }

type throttledError struct{ after time.Duration }

func (e *throttledError) Error() string { return "throttled for " + e.after.String() }

// Terminal wraps an error that no retry will mend: the object becomes Degraded
// and Stalled, and is left alone until its spec or a dependency changes.
func Terminal(err error) error {
	return &stalledError{err: err}
}

// Stalled wraps an error that this operator cannot mend and cannot see mended,
// since nothing here watches what is in the way: as Terminal, but looked at again
// after the given time.
func Stalled(err error, after time.Duration) error {
	return &stalledError{err: err, after: after}
}

// Unstalled takes off an error that it is Terminal or Stalled, for an object of which
// only a part cannot go on: it is Degraded, and tried again as the error says. Other
// errors stay as they are.
func Unstalled(err error) error {
	if err == nil {
		return nil
	}
	return &unstalledError{err}
}

type unstalledError struct{ err error }

func (e *unstalledError) Error() string { return e.err.Error() }
func (e *unstalledError) Unwrap() error { return e.err }

type stalledError struct {
	err   error
	after time.Duration
}

func (e *stalledError) Error() string { return e.err.Error() }
func (e *stalledError) Unwrap() error { return e.err }

// WithReason gives an error the reason that conditions and events show for it: an
// identifier in CamelCase. Without one, an error of the API server shows the
// server's reason, and any other ReasonError.
func WithReason(reason string, err error) error {
	return &reasonError{reason: reason, err: err}
}

// ReasonError is the reason of an error that has none of its own.
const ReasonError = "ReconcileError"

// The API server refuses Events with longer ones (k8s.io/kubernetes, validation
// of Event).
const maxReason = 128

type reasonError struct {
	reason string
	err    error
}

func (e *reasonError) Error() string { return e.err.Error() }
func (e *reasonError) Unwrap() error { return e.err }

// validReason is what the API server takes as the reason of a condition. A
// webhook that denies a request may give any text as its reason.
var validReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// ReasonOf is the reason that conditions and events show for an error.
func ReasonOf(err error) string {
	var (
		named   *reasonError
		waiting *waitError
		reason  string
	)
	switch {
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

// errBehind ends a pass for which the cache is not yet as new as what this
// process wrote itself.
var errBehind = errors.New("the cache does not yet hold this process's own last write")

// panicError is a panic of a pass.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// stackOf is where a panic came from, as a key and a value for the log; nothing
// for other errors.
func stackOf(err error) []any {
	var panicked *panicError
	if errors.As(err, &panicked) {
		return []any{"stack", string(panicked.stack)}
	}
	return nil
}
