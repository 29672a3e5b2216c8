package platform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/conditions"
)

// Reasons of conditions and of components.
const (
	reasonReady       = "ComponentsReady"
	reasonNotReady    = "ComponentsNotReady"
	reasonDegraded    = "ComponentDegraded"
	reasonDeleting    = "RemovingComponents"
	reasonInvalid     = "InvalidSpec"
	reasonCycle       = "DependencyCycle"
	reasonForbidden   = "Forbidden"
	reasonTerminating = "NamespaceTerminating"
	reasonNamespace   = "NamespaceMissing"
	reasonWaiting     = "WaitingForComponents"
	reasonHeld        = "NeededByComponents"
	reasonReplacing   = "ReplacingComponent"
	reasonRemoving    = "Removing"
	reasonNew         = "NotObserved"
)

// terminatingRetry is when a namespace is looked at again that is being deleted, should
// the event that tells of its end be lost.
const terminatingRetry = 30 * time.Second

func namespaceGoes(name string) error {
	return controller.WaitFor(reasonTerminating, fmt.Sprintf(
		"Namespace %s is being deleted; it is made again when it is gone, and the components with it. To be rid of them, delete the Platform.", name), terminatingRetry)
}

// explain turns the error of a component's step into one that says what to do.
func explain(platform *v1alpha1.Platform, c *component, err error) error {
	namespace := platform.Spec.Namespace
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return namespaceGoes(namespace) // which the cache does not know yet
	case ofNamespace(err):
		return controller.WaitFor(reasonNamespace, fmt.Sprintf("Namespace %s is gone, and is made again.", namespace), unconfirmedRetry)
	case apierrors.IsForbidden(err):
		return controller.WithReason(reasonForbidden, fmt.Errorf("component %s: %w; give the operator's account that right in namespace %s, or make room in its quota", c.name, err, namespace))
	}
	return fmt.Errorf("component %s: %w", c.name, err)
}

// ofNamespace tells whether an error says that there is no such namespace.
func ofNamespace(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces"
}

// maxMessage is how long the message of a component may be, so that those of all find
// room in a status.
const maxMessage = 1024

// componentStatus is what users see of a component.
func componentStatus(c *component, all []*component) v1alpha1.PlatformComponentStatus {
	s := v1alpha1.PlatformComponentStatus{Name: v1alpha1.ComponentName(c.name), Kind: c.kind.name(), ManagementState: c.state}
	if c.spec != nil && c.spec.ManagementState != "" {
		s.ManagementState = c.spec.ManagementState
	}
	say := func(phase v1alpha1.PlatformComponentPhase, reason, message string) {
		s.Phase, s.Reason, s.Message = phase, reason, message
	}
	switch {
	case c.ours && c.state == v1alpha1.Managed, c.there && c.state == v1alpha1.Unmanaged:
		say(ofChild(c))
	case c.state == v1alpha1.Unmanaged:
		say(v1alpha1.ComponentAbsent, "", "")
	}
	switch c.step.verb {
	case queue:
		say(v1alpha1.ComponentWaiting, reasonWaiting, waitMessage(c.step.others, all))
	case succeed:
		say(v1alpha1.ComponentWaiting, reasonReplacing, "Waiting for the child of another kind to go that had this name.")
	case blocked:
		say(v1alpha1.ComponentWaiting, reasonNamespace, "Waiting for the namespace.")
	case hold:
		say(v1alpha1.ComponentWaiting, reasonHeld, holdMessage(c.step.others, all))
	case remove, await:
		say(v1alpha1.ComponentRemoving, reasonRemoving, removalMessage(c))
	}
	if c.state == v1alpha1.Removed && c.step.verb == leave {
		say(v1alpha1.ComponentRemoved, "", "")
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

// ofChild is what a child says of itself, once that is about what is wanted of it.
func ofChild(c *component) (phase v1alpha1.PlatformComponentPhase, reason, message string) {
	phase = v1alpha1.PlatformComponentPhase(c.kind.phase(c.child))
	ready := conditions.Find(*c.child.StatusConditions(), conditions.Ready)
	if !current(c.child) || ready == nil {
		return "Pending", reasonNew, c.kind.name() + " " + c.child.GetName() + " was written, and nothing is known of it yet."
	}
	return phase, ready.Reason, ready.Message
}

// removalMessage says for what a child waits that is being deleted.
func removalMessage(c *component) string {
	message := c.kind.name() + " " + c.child.GetName() + " is being deleted."
	if ready := conditions.Find(*c.child.StatusConditions(), conditions.Ready); c.step.verb == await && ready != nil && ready.Status != "True" {
		message += " It says: " + ready.Message
	}
	return message
}

// waitMessage says which components must be Ready first.
func waitMessage(names []string, all []*component) string {
	said := make([]string, len(names))
	for i, name := range names {
		said[i] = name
		if slices.ContainsFunc(all, func(c *component) bool { return c.listed && c.name == name && c.state == v1alpha1.Removed }) {
			said[i] += " (which is Removed)"
		}
	}
	return "Waiting for " + strings.Join(said, ", ") + " to be Ready."
}

// holdMessage says which components must be gone first.
func holdMessage(names []string, all []*component) string {
	said := make([]string, len(names))
	for i, name := range names {
		said[i] = name
		if slices.ContainsFunc(all, func(c *component) bool { return c.listed && c.name == name && c.state == v1alpha1.Managed }) {
			said[i] += " (which is Managed)"
		}
	}
	return "It stays until what depends on it is gone: " + strings.Join(said, ", ") + "."
}

// settled tells whether a component is what it shall be.
func settled(c *component) bool {
	switch {
	case c.err != nil:
		return false
	case c.state == v1alpha1.Managed:
		return c.step.verb == keep && c.ready
	default:
		return c.step.verb == leave || c.step.verb == release
	}
}

// setStatus tells what a pass has found. err is what it ends with.
func setStatus(platform *v1alpha1.Platform, all []*component, homeless, err error) {
	setComponents(platform, all)
	open := slices.DeleteFunc(slices.Clone(all), settled)
	list := &platform.Status.Conditions
	if len(open) == 0 && err == nil {
		message := "Every Managed component is Ready, and every Removed one is gone."
		platform.Status.Phase = v1alpha1.PlatformReady
		conditions.True(list, conditions.Ready, reasonReady, message)
		conditions.False(list, conditions.Progressing, reasonReady, message)
		return
	}
	message := openMessage(open, all)
	conditions.False(list, conditions.Ready, reasonNotReady, message)
	conditions.True(list, conditions.Progressing, reasonNotReady, message)
	setDegraded(platform, open)
	switch {
	case conditions.IsTrue(*list, conditions.Degraded) || controller.Degrades(err):
		platform.Status.Phase = v1alpha1.PlatformFailed
	case homeless != nil:
		platform.Status.Phase = v1alpha1.PlatformPending
	default:
		platform.Status.Phase = v1alpha1.PlatformDeploying
	}
	if err != nil {
		conditions.True(list, conditions.Progressing, controller.ReasonOf(err), err.Error())
	}
}

// setDegraded passes on what children say of themselves: the Platform is Stalled if one
// of them is and nothing else is under way.
func setDegraded(platform *v1alpha1.Platform, open []*component) {
	var degraded []string
	stalled, moving := false, false
	for _, c := range open {
		says := c.child != nil && c.ours && current(c.child)
		if says && conditions.IsTrue(*c.child.StatusConditions(), conditions.Degraded) {
			degraded = append(degraded, c.name)
		}
		switch {
		case says && conditions.IsTrue(*c.child.StatusConditions(), conditions.Stalled):
			stalled = true
		case c.err == nil && (c.step.verb == keep || c.step.verb == await || c.step.verb == remove):
			moving = true
		}
	}
	if len(degraded) == 0 {
		return
	}
	list := &platform.Status.Conditions
	message := conditions.Find(*list, conditions.Ready).Message
	conditions.True(list, conditions.Degraded, reasonDegraded, "Look at "+strings.Join(degraded, ", ")+". "+message)
	if stalled && !moving {
		conditions.True(list, conditions.Stalled, reasonDegraded, message)
		conditions.False(list, conditions.Progressing, reasonDegraded, message)
	}
}

// setDeleting is for a Platform that waits for its components to go.
func setDeleting(platform *v1alpha1.Platform, all []*component, err error) {
	setComponents(platform, all)
	platform.Status.Phase = v1alpha1.PlatformDeleting
	conditions.True(&platform.Status.Conditions, conditions.Progressing, controller.ReasonOf(err), err.Error())
}

// setRefused is for a spec that cannot be carried out. What the components are stays.
func setRefused(platform *v1alpha1.Platform, err error) {
	if controller.Degrades(err) {
		platform.Status.Phase = v1alpha1.PlatformFailed
	}
}

func setComponents(platform *v1alpha1.Platform, all []*component) {
	s := &platform.Status
	s.ManagedComponents, s.ReadyComponents, s.Components = 0, 0, nil
	for _, c := range all {
		s.Components = append(s.Components, componentStatus(c, all))
		if c.state == v1alpha1.Managed {
			s.ManagedComponents++
			if settled(c) {
				s.ReadyComponents++
			}
		}
	}
}

// maxNamed is how many components a message names.
const maxNamed = 5

// openMessage says which components are not what they shall be, and why: first those
// for which others wait.
func openMessage(open, all []*component) string {
	slices.SortStableFunc(open, func(a, b *component) int { return rank(a) - rank(b) })
	said := make([]string, 0, maxNamed)
	for _, c := range open[:min(len(open), maxNamed)] {
		s := componentStatus(c, all)
		said = append(said, c.name+" is "+string(s.Phase)+": "+strings.TrimSuffix(s.Message, "."))
	}
	message := fmt.Sprintf("Not ready: %d of %d components. %s", len(open), len(all), strings.Join(said, "; "))
	if more := len(open) - maxNamed; more > 0 {
		message += fmt.Sprintf("; and %d more", more)
	}
	return message + "."
}

// rank is the lower, the less a component waits for others.
func rank(c *component) int {
	switch {
	case c.err != nil:
		return 0
	case len(c.step.others) == 0:
		return 1
	default:
		return 2
	}
}

// deletionMessage says for what the deletion of a Platform waits.
func deletionMessage(left []*component) string {
	return openMessage(left, left)
}
