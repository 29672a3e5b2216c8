package platform

import (
	"slices"
	"strings"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

// maxMessage limits the message of a component, in bytes, so that the messages of all components fit into
// the status.
const maxMessage = 1024

// componentStatus returns the status of a component.
func componentStatus(c *component, all []*component) v1alpha1.PlatformComponentStatus {
	s := v1alpha1.PlatformComponentStatus{Name: v1alpha1.ComponentName(c.name), Kind: c.kind.Kind}
	s.ManagementState = c.state
	switch {
	case c.state == v1alpha1.Unmanaged && c.bound:
		s.ManagementState = v1alpha1.Managed // until it is released
	case c.spec != nil && c.spec.ManagementState != "":
		s.ManagementState = c.spec.ManagementState // also while the Platform is being deleted
	}
	say := func(phase v1alpha1.PlatformComponentPhase, note controller.Note) {
		s.Phase, s.Reason, s.Message = phase, note.Reason, note.Message
	}
	switch {
	case c.ours && c.state == v1alpha1.Managed, c.there && c.state == v1alpha1.Unmanaged:
		say(ofChild(c))
	case c.state == v1alpha1.Unmanaged:
		say(v1alpha1.ComponentAbsent, controller.Note{})
	case c.state == v1alpha1.Removed && (!c.there || !c.ours):
		say(v1alpha1.ComponentRemoved, controller.Note{})
	}
	switch c.step.verb {
	case queue:
		say(v1alpha1.ComponentWaiting, messageWaiting.Note(pointingOut(v1alpha1.Removed, c.step.others, all)))
	case succeed:
		say(v1alpha1.ComponentWaiting, messageSuccession.Note())
	case announce:
		say(v1alpha1.ComponentWaiting, messageAnnounced.Note(c.kind.Kind))
	case crowded:
		say(v1alpha1.ComponentWaiting, messageCrowded.Note(maxLeft))
	case blocked:
		say(v1alpha1.ComponentWaiting, messageNoHome.Note())
	case rejected:
		if s.Phase == "" && s.Reason == "" && c.state != v1alpha1.Unmanaged {
			say(v1alpha1.ComponentWaiting, messageRejectedSpec.Note())
		}
	case hold:
		say(v1alpha1.ComponentWaiting, messageHeld.Note(pointingOut(v1alpha1.Managed, c.step.others, all)))
	case stay:
		say(s.Phase, withChild(c, messageStaying.Note(strings.Join(c.step.others, ", "), c.kind.Kind, c.child.GetName())))
	case finish:
		say(s.Phase, withChild(c, messageUnfinished.Note(c.child.GetName())))
	case note:
		say(v1alpha1.ComponentWaiting, messageRerun.Note(c.child.GetName()))
	case reclaim, remove, rerun, await:
		switch {
		case c.state == v1alpha1.Removed:
			say(v1alpha1.ComponentRemoving, removalNote(c))
		case c.step.verb != reclaim: // a changed task runs again
			say(v1alpha1.ComponentWaiting, messageRecreated.Note(c.child.GetName()))
		}
	}
	if c.err != nil {
		s.Reason, s.Message = controller.ReasonOf(c.err), c.err.Error()
		if s.Phase == "" {
			s.Phase = v1alpha1.ComponentWaiting
		}
	}
	if len(s.Message) > maxMessage {
		s.Message = strings.ToValidUTF8(s.Message[:maxMessage-3], "") + "..."
	}
	return s
}

// ofChild returns the phase, the reason and the message of a component from its child. Until the child
// reports a status for its newest generation, the phase is Pending.
func ofChild(c *component) (v1alpha1.PlatformComponentPhase, controller.Note) {
	ready := conditions.Find(*c.child.StatusConditions(), conditions.Ready)
	if !current(c.child) || ready == nil {
		return "Pending", messageUnobserved.Note(c.kind.Kind, c.child.GetName())
	}
	// Readers of Platforms may not be allowed to read the logs in the namespace.
	message, _, _ := strings.Cut(ready.Message, " "+pods.LogWords)
	return v1alpha1.PlatformComponentPhase(phaseOf(c.child)), controller.Note{Reason: ready.Reason, Message: message}
}

// removalNote returns a note that a child is being deleted. If the child reports why this takes long, the note quotes
// it.
func removalNote(c *component) controller.Note {
	if ready := conditions.Find(*c.child.StatusConditions(), conditions.Ready); c.step.verb == await && ready != nil &&
		ready.Status != "True" {
		return messageRemovalSays.Note(c.kind.Kind, c.child.GetName(), ready.Message)
	}
	return messageRemoving.Note(c.kind.Kind, c.child.GetName())
}

// withChild appends the message of the condition Ready of a child to a note if the child is Degraded.
func withChild(c *component, note controller.Note) controller.Note {
	all := *c.child.StatusConditions()
	ready := conditions.Find(all, conditions.Ready)
	if ready != nil && current(c.child) && conditions.IsTrue(all, conditions.Degraded) {
		note.Message += messageChild.With(ready.Message)
	}
	return note
}

// pointingOut joins names of components. It adds the given management state to the name of each component that is in
// this state.
func pointingOut(state v1alpha1.ManagementState, names []string, all []*component) string {
	said := slices.Clone(names)
	for i, name := range names {
		if isIn(state, name, all) {
			said[i] += " (which is " + string(state) + ")"
		}
	}
	return strings.Join(said, ", ")
}

// isIn reports whether the spec has a component with this name and management state.
func isIn(state v1alpha1.ManagementState, name string, all []*component) bool {
	return slices.ContainsFunc(all, func(c *component) bool { return c.listed && c.name == name && c.state == state })
}
