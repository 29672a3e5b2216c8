package conversion

import (
	"fmt"
	"slices"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	cnatv1alpha1 "windlass.dev/windlass/pkg/apis/cnat/v1alpha1"
)

// errTooLarge is the error of a conversion to v1 that would lose fields, because the annotation does not contain these
// fields.
var errTooLarge = fmt.Errorf("the annotation %s cannot hold the fields of v1: use version v1 to change or delete the "+
	"object",
	Annotation)

// renamed maps the phases of each version to the phases of the other version. It is its own inverse, so a round
// trip keeps every phase, even a phase that the version of the At does not define.
var renamed = map[string]string{
	cnatv1alpha1.PhasePending: string(cnatv1.AtPending),
	cnatv1alpha1.PhaseRunning: string(cnatv1.AtRunning),
	cnatv1alpha1.PhaseDone:    string(cnatv1.AtDone),
	string(cnatv1.AtPending):  cnatv1alpha1.PhasePending,
	string(cnatv1.AtRunning):  cnatv1alpha1.PhaseRunning,
	string(cnatv1.AtDone):     cnatv1alpha1.PhaseDone,
}

// at is an At of either version.
type at struct {
	whole       object
	readable    bool // whether Go clients can decode the At as v1
	metadata    object
	annotations map[string]string
	spec        object // nil if absent
	status      object // nil if absent
}

// toV1alpha1 converts from v1. It moves spec fields that v1alpha1 does not have into the annotation. Status
// fields that v1alpha1 does not have stay in the status: for a write as v1alpha1, the API server takes the
// annotations from the request, but the status from the stored object.
func (a *at) toV1alpha1() error {
	line, err := lineOf(a.spec)
	if err != nil {
		return fmt.Errorf("spec.%w", err)
	}
	c := carried{Spec: a.spec}
	a.spec = c.Spec.take("schedule")
	if line.exact {
		delete(c.Spec, "command")
	}
	if line.found {
		if err := a.spec.set("command", line.text); err != nil {
			return err
		}
	}
	if err := a.renamePhase(); err != nil {
		return err
	}
	return a.carry(c)
}

// toV1 converts from v1alpha1. It restores the fields that the annotation carries. Fields of v1alpha1 take
// precedence, since users edit them.
func (a *at) toV1() error {
	c := a.unpack()
	if c.TooLarge {
		return errTooLarge
	}
	if err := a.restoreSpec(c.Spec); err != nil {
		return fmt.Errorf("spec.%w", err)
	}
	return a.renamePhase()
}

func (a *at) restoreSpec(rest object) error {
	text, err := field[*string](a.spec, "command")
	if err != nil {
		return err
	}
	old, err := lineOf(rest)
	if err != nil {
		return err
	}
	edited := !old.found || text == nil || *text != old.text
	if edited {
		rest.take("command", "args")
	}
	delete(a.spec, "command")
	a.spec = merge(rest, a.spec)
	if !edited || text == nil {
		return nil
	}
	return a.spec.set("command", append(slices.Clone(shell), *text))
}

func (a *at) renamePhase() error {
	phase, err := field[*string](a.status, "phase")
	if err != nil {
		return fmt.Errorf("status.%w", err)
	}
	if phase == nil || renamed[*phase] == "" {
		return nil
	}
	return a.status.set("phase", renamed[*phase])
}

// line is the command of v1alpha1 for command and args of v1.
type line struct {
	text string
	// found reports whether the spec of v1 has command or args.
	found bool
	// exact reports whether the text alone restores command and args.
	exact bool
}

// lineOf returns the line for a spec of v1.
func lineOf(spec object) (line, error) {
	command, err := field[[]string](spec, "command")
	if err != nil {
		return line{}, err
	}
	args, err := field[[]string](spec, "args")
	if err != nil {
		return line{}, err
	}
	words := slices.Concat(command, args)
	_, hasCommand := spec["command"]
	_, hasArgs := spec["args"]
	l := line{text: quote(words), found: hasCommand || hasArgs}
	if n := len(shell); !hasArgs && len(words) == n+1 && slices.Equal(words[:n], shell) {
		l.text, l.exact = words[n], true
	}
	return l, nil
}
