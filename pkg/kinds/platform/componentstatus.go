package platform

import (
	"fmt"
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
		say(v1alpha1.ComponentWaiting, reasonReplacing, "Waiting for the deletion of this component's former child, which has another kind.")
	case announce:
		say(v1alpha1.ComponentWaiting, reasonNew, fmt.Sprintf("The operator is about to create the %s.", c.kind.name()))
	case crowded:
		say(v1alpha1.ComponentWaiting, reasonReplacing, fmt.Sprintf("Waiting for the deletion of components that are no longer in the spec. More than %d of them are left.", maxLeft))
	case blocked:
		say(v1alpha1.ComponentWaiting, reasonNamespace, "Waiting for the namespace.")
	case refused:
		if s.Phase == "" && s.Reason == "" && c.state != v1alpha1.Unmanaged {
			say(v1alpha1.ComponentWaiting, reasonInvalid, "The spec of the Platform is invalid. The condition Ready of the Platform names the error.")
		}
	case hold:
		say(v1alpha1.ComponentWaiting, reasonHeld, holdMessage(c.step.others, all))
	case stay:
		s.Reason, s.Message = reasonWaiting, stayMessage(c)
	case finish:
		s.Reason, s.Message = reasonChanged, finishMessage(c)
	case note, rerun:
		say(v1alpha1.ComponentWaiting, reasonChanged, rerunMessage(c))
	case reclaim, remove, await:
		switch {
		case c.state == v1alpha1.Removed:
			say(v1alpha1.ComponentRemoving, reasonRemoving, removalMessage(c))
		case c.step.verb == await:
			say(v1alpha1.ComponentWaiting, reasonChanged, rerunMessage(c))
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
func ofChild(c *component) (phase v1alpha1.PlatformComponentPhase, reason, message string) {
	phase = v1alpha1.PlatformComponentPhase(c.kind.phase(c.child))
	ready := conditions.Find(*c.child.StatusConditions(), conditions.Ready)
	if !current(c.child) || ready == nil {
		return "Pending", reasonNew, fmt.Sprintf("%s %s has not reported its status yet.", c.kind.name(), c.child.GetName())
	}
	// Readers of Platforms may not be allowed to read the logs in the namespace.
	message, _, _ = strings.Cut(ready.Message, " "+pods.LogWords)
	return phase, ready.Reason, message
}

// removalMessage returns the message about the deletion of a child.
func removalMessage(c *component) string {
	if ready := conditions.Find(*c.child.StatusConditions(), conditions.Ready); c.step.verb == await && ready != nil && ready.Status != "True" {
		return fmt.Sprintf("%s %s is being deleted. Its condition Ready says: %s", c.kind.name(), c.child.GetName(), ready.Message)
	}
	return fmt.Sprintf("%s %s is being deleted.", c.kind.name(), c.child.GetName())
}

// stayMessage names the tasks that must succeed before a child is changed.
func stayMessage(c *component) string {
	message := fmt.Sprintf("Waiting for %s to succeed. Until then, %s %s stays as it is.", strings.Join(c.step.others, ", "), c.kind.name(), c.child.GetName())
	return message + conditionOf(c)
}

// finishMessage says that the former run of a changed task has not ended, and how a user can end it.
func finishMessage(c *component) string {
	return fmt.Sprintf("The spec has changed, but At %s still runs with its former spec. After its command has ended, the operator creates the At again. To end the command now, delete the At.",
		c.child.GetName()) + conditionOf(c)
}

// conditionOf quotes the condition Ready of a child that is Degraded.
func conditionOf(c *component) string {
	all := *c.child.StatusConditions()
	if ready := conditions.Find(all, conditions.Ready); ready != nil && current(c.child) && conditions.IsTrue(all, conditions.Degraded) {
		return fmt.Sprintf(" Its condition Ready says: %s", ready.Message)
	}
	return ""
}

// rerunMessage says that a changed task runs again.
func rerunMessage(c *component) string {
	if c.step.verb == note {
		return fmt.Sprintf("The spec has changed since At %s ran. The operator is about to delete the At and to create it again.", c.child.GetName())
	}
	return fmt.Sprintf("The spec has changed since At %s ran. The At is being deleted, and the operator creates it again.", c.child.GetName())
}

// waitMessage names the components that must be Ready before a component is created.
func waitMessage(names []string, all []*component) string {
	return fmt.Sprintf("Waiting for %s to be Ready.", pointingOut(v1alpha1.Removed, names, all))
}

// holdMessage names the components that must be deleted before a component is removed.
func holdMessage(names []string, all []*component) string {
	return fmt.Sprintf("Waiting for the deletion of components that depend on this component: %s.", pointingOut(v1alpha1.Managed, names, all))
}

// pointingOut joins names of components. It adds the management state to the name of each component in this
// state.
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
