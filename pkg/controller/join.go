package controller

import (
	"slices"
	"strings"
)

// maxPart is the maximum size in bytes of each message in a joined error, so that a long message leaves room for the
// others.
const maxPart = 4096

// Join returns the error of a reconcile in which several independent parts failed. The error has all messages, and the
// reason and the retry of the error that Worst selects. The object becomes Degraded or Stalled if one of the errors
// sets this condition. Join returns nil if all errors are nil.
func Join(errs ...error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	if len(errs) < 2 {
		return Worst(errs...)
	}
	return &joinedError{all: errs, worst: Worst(errs...)}
}

// joinedError does not unwrap to its errors, because no single error decides the outcome.
type joinedError struct {
	all   []error
	worst error
}

func (e *joinedError) Error() string {
	parts := make([]string, len(e.all))
	for i, err := range e.all {
		parts[i] = strings.TrimSuffix(err.Error(), ".")
		if len(parts[i]) > maxPart {
			parts[i] = strings.ToValidUTF8(parts[i][:maxPart], "") + "…"
		}
	}
	return strings.Join(parts, "; ")
}

func (e *joinedError) decision() decision {
	d := classify(Result{}, e.worst)
	if d.quiet {
		return d
	}
	for _, err := range e.all {
		other := classify(Result{}, err)
		d.degraded, d.stalled, d.warn = d.degraded || other.degraded, d.stalled || other.stalled, d.warn || other.warn
	}
	d.message = e.Error()
	if d.err != nil {
		d.err = e
	}
	return d
}
