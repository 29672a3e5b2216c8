package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller/internal/conditions"
)

// State is what a reconcile concludes about an object. It decides the status of the conditions
// that every kind has:
//
//	             Ready  Progressing  Degraded  Stalled
//	Ready        True   False        False     absent
//	Progressing  False  True         False     absent
//	Idle         False  False        False     absent
//	Degraded     False  True         True      absent
//	Stalled      False  False        True      True
type State int

const (
	// StateProgressing is an object that is on its way to what its spec says.
	StateProgressing State = iota
	// StateReady is an object that is what its spec says.
	StateReady
	// StateIdle is an object that waits for its user, such as one that is suspended.
	StateIdle
	// StateDegraded is an object that a user should look at, and that is still on its way.
	StateDegraded
	// StateStalled is an object for which nothing happens until somebody changes something.
	StateStalled
)

// Note is the reason of a condition, an identifier in CamelCase, and its message, a sentence.
type Note struct{ Reason, Message string }

// Summary is what a reconcile tells users about an object. Together with the error of the
// reconcile it makes all conditions that every kind has; no kind sets one of them itself.
type Summary struct {
	State State
	// Note is that of each condition, unless one of the following takes its place.
	Note
	// Problem is the Note of Degraded, of Stalled, and of a Progressing that is False because of
	// them.
	Problem *Note
	// Progress makes Progressing True of an object that is Ready.
	Progress *Note
}

// Blocked returns the Summary of an object whose reconcile failed with err, or waits: the object is
// on its way, unless the error says otherwise.
func Blocked(err error) Summary {
	return Summary{State: StateProgressing, Note: Note{Reason: ReasonOf(err), Message: err.Error()}}
}

// SetOn sets the conditions of obj, but for their times and generations. Those of an error that
// the reconcile returns are set later, and take the place of these.
func (s Summary) SetOn(obj Object) {
	list, ready, progressing, problem := obj.StatusConditions(), metav1.ConditionFalse, metav1.ConditionFalse, s.Note
	if s.State == StateReady {
		ready = metav1.ConditionTrue
	}
	if s.Problem != nil {
		problem = *s.Problem
	}
	progress := s.Note
	switch {
	case s.Progress != nil:
		progressing, progress = metav1.ConditionTrue, *s.Progress
	case s.State == StateProgressing || s.State == StateDegraded:
		progressing = metav1.ConditionTrue
	case s.State == StateStalled:
		progress = problem
	}
	conditions.Set(list, conditions.Ready, ready, s.Reason, s.Message)
	conditions.Set(list, conditions.Progressing, progressing, progress.Reason, progress.Message)
	if s.State == StateDegraded || s.State == StateStalled {
		conditions.True(list, conditions.Degraded, problem.Reason, problem.Message)
	}
	if s.State == StateStalled {
		conditions.True(list, conditions.Stalled, problem.Reason, problem.Message)
	}
}

// blame sets the conditions that follow from an outcome. After a reconcile without an error they
// are those of its Summary alone.
func (o outcome) blame(list *[]metav1.Condition) {
	if o.reason == "" {
		return
	}
	conditions.False(list, conditions.Ready, o.reason, o.message)
	if o.degraded {
		conditions.True(list, conditions.Degraded, o.reason, o.message)
	}
	if o.stalled {
		conditions.True(list, conditions.Stalled, o.reason, o.message)
		conditions.False(list, conditions.Progressing, o.reason, o.message)
	}
}
