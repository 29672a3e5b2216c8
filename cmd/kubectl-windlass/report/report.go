// Package report turns planned writes into text for users: differences, consequences and a summary. It shows no data of
// Secrets.
package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"windlass.dev/windlass/pkg/plan"
)

// Plan is the result of `kubectl windlass plan`, in the form of its output formats json and yaml.
type Plan struct {
	// Steps are the planned writes and SQL statements in order.
	Steps []Step `json:"steps"`
	// Waiting are the objects that are not Ready after the steps, and why.
	Waiting []Problem `json:"waiting,omitempty"`
	// Failed are the objects for which the plan lacks steps, because a reconcile failed.
	Failed []Problem `json:"failed,omitempty"`
	// Notes are sentences about what the plan does not know.
	Notes   []string `json:"notes,omitempty"`
	Summary Summary  `json:"summary"`
}

// Step is a planned write, or SQL.
type Step struct {
	// By is the object for which the operator sends the write, for example App shop/web. It is "you" for the objects that
	// the user gave, and "garbage collector" for the writes of the garbage collector.
	By string `json:"by"`
	// Verb is create, update, patch, delete or execute.
	Verb       string `json:"verb"`
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	// Due is the time of the write, in the format of RFC 3339, if the operator waits for a time.
	Due string `json:"due,omitempty"`
	// Consequence describes the effect of the change, for example: replaces its Pods in a rolling update.
	Consequence string `json:"consequence"`
	// Diff is a unified diff of the object as YAML, or the SQL.
	Diff string `json:"diff,omitempty"`
	// ToKeepPods are the fields to add to the spec of an App, as YAML, so that an adopted Deployment keeps its Pods. It is
	// empty if the Pods stay, or if no fields are enough.
	ToKeepPods string `json:"toKeepPods,omitempty"`
	// Unchecked is true if the API server did not check the write.
	Unchecked bool `json:"unchecked,omitempty"`
	// Error is the error with which the API server rejects the write.
	Error string `json:"error,omitempty"`
}

// you is the Step.By of the writes of the user.
const you = "you"

// Problem is an object, and the reason why it is not Ready after the planned writes, or cannot be planned.
type Problem struct {
	Object  string `json:"object"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}

// Summary counts the objects that a plan creates, changes and deletes.
type Summary struct {
	Create int `json:"create"`
	Change int `json:"change"`
	Delete int `json:"delete"`
	// Statements is the number of SQL transactions.
	Statements int `json:"statements,omitempty"`
	// Rejected is the number of rejected writes.
	Rejected int `json:"rejected,omitempty"`
	// Failed is the number of objects that cannot be planned.
	Failed int `json:"failed,omitempty"`
}

// String implements fmt.Stringer.
func (s Summary) String() string {
	text := fmt.Sprintf("Plan: %d to create, %d to change, %d to delete", s.Create, s.Change, s.Delete)
	if s.Statements > 0 {
		text += fmt.Sprintf(", %d SQL transactions to execute", s.Statements)
	}
	if s.Rejected > 0 {
		text += fmt.Sprintf(", %d rejected", s.Rejected)
	}
	if s.Failed > 0 {
		text += fmt.Sprintf(", %d objects not planned", s.Failed)
	}
	return text + "."
}

// IsEmpty reports whether a plan changes nothing.
func (s Summary) IsEmpty() bool { return s == Summary{} }

// New returns the report of a plan. The report omits writes that change only a status, because the status follows from
// the other writes.
func New(writes []plan.Write) (Plan, error) {
	p := Plan{Steps: []Step{}, Summary: summarize(writes)}
	for i := range writes {
		if i+1 < len(writes) && isReplaced(&writes[i], &writes[i+1]) {
			continue
		}
		step, shown, err := stepOf(&writes[i])
		if err != nil {
			return p, err
		}
		// the operator repeats rejected writes
		if again := step.Error != "" && slices.Contains(p.Steps, step); !shown || again {
			continue
		}
		p.Steps = append(p.Steps, step)
		if step.Verb == plan.Execute {
			p.Summary.Statements++
		}
		if step.Error != "" {
			p.Summary.Rejected++
		}
	}
	return p, nil
}

// isReplaced reports whether next is another patch of a child after the API server rejected the patch w as invalid: see
// package children.
func isReplaced(w, next *plan.Write) bool {
	return apierrors.IsInvalid(w.Err) && w.Verb == "patch" && next.Verb == w.Verb && next.Writer == w.Writer &&
		next.Resource == w.Resource && next.Namespace == w.Namespace && next.Name == w.Name
}

// stepOf returns the step of a write. shown is false for a write that has no effect for users.
func stepOf(w *plan.Write) (step Step, shown bool, err error) {
	step = Step{
		By: cmp.Or(w.Writer, you), Verb: w.Verb, APIVersion: w.Resource.GroupVersion().String(), Kind: w.Kind,
		Namespace: w.Namespace, Name: w.Name, Unchecked: w.Unchecked,
	}
	if w.Verb == plan.Execute {
		step.Consequence = "executes SQL on its PostgreSQL server" // the name of the server is in a Secret
		step.Diff = string(w.Body) + ";\n"
		return step, true, nil
	}
	if w.Err != nil {
		if w.Writer != "" && isRetried(w.Err) {
			return step, false, nil
		}
		step.Consequence, step.Error = "is rejected by the API server", rejection(w)
		return step, true, nil
	}
	if w.Subresource != "" {
		return step, false, nil
	}
	if step.Diff, err = diff(w.Before, w.After); err != nil {
		return step, false, err
	}
	step.Consequence = consequence(w)
	if w.Kind == "Deployment" && isAdoption(w) {
		step.ToKeepPods = toKeepPods(w)
	}
	if !w.Due.IsZero() {
		step.Due = w.Due.UTC().Format(time.RFC3339)
	}
	return step, step.Diff != "" || w.Before == nil || w.After == nil || isDeletion(w), nil
}

// summarize counts the objects that differ before the first and after the last write.
func summarize(writes []plan.Write) (s Summary) {
	type object struct{ resource, namespace, name string }
	type ends struct{ first, last *unstructured.Unstructured }
	all := map[object]*ends{}
	for i := range writes {
		w := &writes[i]
		if w.Err != nil {
			continue
		}
		of := object{w.Resource.GroupResource().String(), w.Namespace, w.Name}
		if all[of] == nil {
			all[of] = &ends{first: w.Before}
		}
		all[of].last = w.After
	}
	for _, e := range all {
		switch is, _ := diff(e.first, e.last); {
		case e.first == nil && e.last != nil:
			s.Create++
		case e.first != nil && (e.last == nil || isDeletion(&plan.Write{Before: e.first, After: e.last})):
			s.Delete++
		case e.first != nil && is != "":
			s.Change++
		}
	}
	return s
}
