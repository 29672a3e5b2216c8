package platform

import (
	"fmt"
	"slices"
	"strings"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// maxMessage limits the message of a component, in bytes, so that the messages of all components fit into
// the status.
const maxMessage = 1024

// componentStatus returns the status of a component.
func componentStatus(c *component, all []*component) v1alpha1.PlatformComponentStatus {
	s := v1alpha1.PlatformComponentStatus{Name: v1alpha1.ComponentName(c.name), Kind: c.kind.name(), ManagementState: c.state}
	switch {
	case c.state == v1alpha1.Unmanaged && c.bound:
		s.ManagementState = v1alpha1.Managed // until it is released
	case c.spec != nil && c.spec.ManagementState != "":
		s.ManagementState = c.spec.ManagementState // also while the Platform is being deleted
	}
	say := func(phase v1alpha1.PlatformComponentPhase, reason, message string) {
		s.Phase, s.Reason, s.Message = phase, reason, message
	}
	switch {
	case c.ours && c.state == v1alpha1.Managed, c.there && c.state == v1alpha1.Unmanaged:
		say(ofChild(c))
	case c.state == v1alpha1.Unmanaged:
		say(v1alpha1.ComponentAbsent, "", "")
	case c.state == v1alpha1.Removed && (!c.there || !c.ours):
		say(v1alpha1.ComponentRemoved, "", "")
	}
	switch c.step.verb {
	case queue:
		say(v1alpha1.ComponentWaiting, reasonWaiting, waitMessage(c.step.others, all))
	case succeed:
		say(v1alpha1.ComponentWaiting, reasonReplacing, "Waiting for the child of another kind to go that had this name.")
	case announce:
		say(v1alpha1.ComponentWaiting, reasonNew, "It is about to be made.")
	case crowded:
		say(v1alpha1.ComponentWaiting, reasonReplacing, fmt.Sprintf("Waiting for the children of components to go that are no longer in the spec; no more than %d may be left.", maxLeft))
	case blocked:
		say(v1alpha1.ComponentWaiting, reasonNamespace, "Waiting for the namespace.")
	case refused:
		if s.Phase == "" && s.Reason == "" && c.state != v1alpha1.Unmanaged {
			say(v1alpha1.ComponentWaiting, reasonInvalid, "The Platform's condition Ready says what is wrong with its spec.")
		}
	case hold:
		say(v1alpha1.ComponentWaiting, reasonHeld, holdMessage(c.step.others, all))
	case reclaim, remove, await:
		say(v1alpha1.ComponentRemoving, reasonRemoving, removalMessage(c))
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

// ofChild returns phase, reason and message of a child, once its status is about its newest generation.
func ofChild(c *component) (phase v1alpha1.PlatformComponentPhase, reason, message string) {
	phase = v1alpha1.PlatformComponentPhase(c.kind.phase(c.child))
	ready := conditions.Find(*c.child.StatusConditions(), conditions.Ready)
	if !current(c.child) || ready == nil {
		return "Pending", reasonNew, c.kind.name() + " " + c.child.GetName() + " is there, and has not said yet how it is."
	}
	return phase, ready.Reason, ready.Message
}

// removalMessage returns what the deletion of a child waits for.
func removalMessage(c *component) string {
	message := c.kind.name() + " " + c.child.GetName() + " is being deleted."
	if ready := conditions.Find(*c.child.StatusConditions(), conditions.Ready); c.step.verb == await && ready != nil && ready.Status != "True" {
		message += " It says: " + ready.Message
	}
	return message
}

// waitMessage returns which components must be Ready first.
func waitMessage(names []string, all []*component) string {
	return "Waiting for " + pointingOut(v1alpha1.Removed, names, all) + " to be Ready."
}

// holdMessage returns which components must be gone first.
func holdMessage(names []string, all []*component) string {
	return "It stays until what depends on it is gone: " + pointingOut(v1alpha1.Managed, names, all) + "."
}

// pointingOut lists names of components, and adds the management state to those that have the given one.
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
