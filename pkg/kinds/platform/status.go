package platform

import (
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// settled reports whether a component is in its desired state.
func settled(c *component) bool {
	switch {
	case c.failed:
		return false
	case c.state == v1alpha1.Managed:
		return c.step.verb == keep && c.ready
	default:
		return c.step.verb == leave || c.step.verb == release
	}
}

// setStatus sets the status after a reconcile that ended with err. homeless is the error about the
// namespace, or nil. setStatus reports whether a component still makes progress.
func setStatus(platform *v1alpha1.Platform, all []*component, homeless, err error) (moving bool) {
	setComponents(platform, all)
	open := slices.DeleteFunc(slices.Clone(all), settled)
	if len(open) == 0 && err == nil {
		platform.Status.Phase = v1alpha1.PlatformReady
		controller.Summary{State: controller.StateReady, Note: messageReady.Note()}.SetOn(platform)
		return false
	}
	note := messageNotReady.Note()
	if len(open) > 0 {
		note = messageOpen.Note(len(open), len(all), openMessage(open, all))
	}
	degraded, moving := judge(platform, open, all)
	summarize(degraded, moving, note).SetOn(platform)
	switch {
	case len(degraded) > 0 || controller.Degrades(platform, err):
		platform.Status.Phase = v1alpha1.PlatformFailed
	case homeless != nil:
		platform.Status.Phase = v1alpha1.PlatformPending
	default:
		platform.Status.Phase = v1alpha1.PlatformDeploying
	}
	return moving
}

// summarize returns the summary of a Platform that is not Ready. note says why.
func summarize(degraded []string, moving bool, note controller.Note) controller.Summary {
	s := controller.Summary{State: controller.StateProgressing, Note: note}
	if len(degraded) == 0 {
		return s
	}
	s.State, s.Problem = controller.StateDegraded, ptr.To(messageDegraded.Note(strings.Join(degraded, ", "), note.Message))
	if !moving {
		s.State = controller.StateStalled
	}
	return s
}

// judge returns the components that need a user's attention, and reports whether other components make progress. If
// others make progress, judge omits components that wait for a state that the spec rules out: the user may be about to
// change the spec.
func judge(platform *v1alpha1.Platform, open, all []*component) (degraded []string, moving bool) {
	var ruledOut []string
	for _, c := range open {
		outdated := c.changed && !c.running // the child is about to be replaced
		told := c.child != nil && c.ours && current(c.child) && !outdated
		says := func(kind string) bool { return told && conditions.IsTrue(*c.child.StatusConditions(), kind) }
		failed := c.err != nil && controller.Degrades(platform, c.err)
		if failed || says(conditions.Degraded) {
			degraded = append(degraded, c.name)
		}
		switch {
		case isRuledOut(c, all):
			ruledOut = append(ruledOut, c.name)
		case !failed && !says(conditions.Stalled) && len(c.step.others) == 0 && c.step.verb != blocked:
			moving = true
		}
	}
	if !moving {
		degraded = append(degraded, ruledOut...)
	}
	return degraded, moving
}

// isRuledOut reports whether a component waits for a state that the spec rules out: until a Removed
// component is Ready, or until a Managed component is deleted.
func isRuledOut(c *component, all []*component) bool {
	bar := map[verb]v1alpha1.ManagementState{queue: v1alpha1.Removed, hold: v1alpha1.Managed}[c.step.verb]
	return bar != "" && slices.ContainsFunc(c.step.others, func(name string) bool { return isIn(bar, name, all) })
}

// setDeleting sets the status of a Platform that waits for the deletion of its components.
func setDeleting(platform *v1alpha1.Platform, all []*component, err error) {
	setComponents(platform, all)
	platform.Status.Phase = v1alpha1.PlatformDeleting
	degraded, _ := judge(platform, slices.DeleteFunc(slices.Clone(all), settled), all)
	summarize(degraded, true, controller.Blocked(err).Note).SetOn(platform)
}

// setRejected sets the status of a Platform whose spec is invalid. The children of the Platform stay unchanged.
func setRejected(platform *v1alpha1.Platform, all []*component) {
	for _, c := range all {
		c.step = step{verb: rejected}
	}
	setComponents(platform, all)
	platform.Status.Phase = v1alpha1.PlatformFailed
}

func setComponents(platform *v1alpha1.Platform, all []*component) {
	s := &platform.Status
	previous := s.Components
	s.ManagedComponents, s.ReadyComponents, s.Components = 0, 0, nil
	for _, c := range all {
		said := componentStatus(c, all)
		if c.listed {
			said.Runs = runsOf(c, previousStatus(previous, said.Kind, said.Name))
		}
		s.Components = append(s.Components, said)
		if said.ManagementState != v1alpha1.Managed {
			continue
		}
		s.ManagedComponents++
		if c.ours && c.ready {
			s.ReadyComponents++
		}
	}
}

// maxNamed is how many components a message names.
const maxNamed = 5

// openMessage says why components are not in their desired state. It begins with the components that do not
// wait for other components.
func openMessage(open, all []*component) string {
	slices.SortStableFunc(open, func(a, b *component) int { return rank(a) - rank(b) })
	said := make([]string, 0, maxNamed)
	for _, c := range open[:min(len(open), maxNamed)] {
		s := componentStatus(c, all)
		said = append(said, c.name+" is "+string(s.Phase)+": "+strings.TrimSuffix(s.Message, "."))
	}
	message := strings.Join(said, "; ")
	if more := len(open) - maxNamed; more > 0 {
		message += messageMore.With(more)
	}
	return message + "."
}

// rank returns the sort key of a component in openMessage. Components that failed come first, and
// components that wait for other components come last.
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
