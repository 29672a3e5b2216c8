package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller/conditions"
)

// State is the conclusion of a reconcile about an object. It decides the status of the conditions
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
	// StateProgressing means that the object has not reached its desired state.
	StateProgressing State = iota
	// StateReady means that the object has reached its desired state.
	StateReady
	// StateIdle means that the object, for example a suspended At, does nothing until a user changes it.
	StateIdle
	// StateDegraded means that a user should look at a problem of the object. The object still progresses.
	StateDegraded
	// StateStalled means that a user has to solve a problem before the object progresses.
	StateStalled
)

// Note is the reason of a condition, an identifier in CamelCase, and its message, a sentence.
type Note struct{ Reason, Message string }

// Summary is the result of a reconcile for users. The conditions that every kind has follow from the
// Summary and from the error of the reconcile. No kind sets one of these conditions in another way.
type Summary struct {
	State State
	// Note is the reason and message of all conditions. The following fields override it.
	Note
	// Problem overrides Note for Degraded and Stalled, and for Progressing of a Stalled object.
	Problem *Note
	// Progress sets Progressing of a Ready object to True, with this note.
	Progress *Note
}

// Blocked returns the Summary of an object whose reconcile returned err. The engine adds Degraded and
// Stalled if err calls for them.
func Blocked(err error) Summary {
	return Summary{State: StateProgressing, Note: Note{Reason: ReasonOf(err), Message: err.Error()}}
}

// SetOn sets the conditions of obj, without their times and generations. Before each reconcile, the engine has set
// Degraded to False and removed Stalled. If the reconcile returns an error, the engine then overwrites the conditions
// that follow from the error.
func (s Summary) SetOn(obj Object) {
	list, problem, progress := obj.StatusConditions(), s.Note, s.Note
	ready, progressing := metav1.ConditionFalse, metav1.ConditionFalse
	if s.State == StateReady {
		ready = metav1.ConditionTrue
	}
	if s.Problem != nil {
		problem = *s.Problem
	}
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
