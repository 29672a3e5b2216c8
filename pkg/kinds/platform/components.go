package platform

import (
	"context"
	"slices"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// component is one component of a Platform, with its observed state and its next step.
type component struct {
	fact
	kind childKind
	// spec is nil if the spec of the Platform does not list the component.
	spec  *v1alpha1.PlatformComponent
	child controller.Object
	step  step
	// failed reports whether the step failed. err is the error of the step, or nil if controller.Quiet reports true for
	// the error.
	failed bool
	err    error
}

// observe sets the observed state. child is nil if no object has the name of the child.
func (c *component) observe(p *scope, child controller.Object) {
	c.child, c.there = child, child != nil
	c.ours, c.bound, c.going, c.ready, c.changed, c.running = false, false, false, false, false, false
	if child == nil {
		return
	}
	c.bound = p.owner.IsReferredToBy(child)
	// A released child still belongs to the Platform until the Platform is being deleted.
	c.ours = p.owner.Owns(child) && (c.bound || p.platform.DeletionTimestamp == nil)
	c.going = child.GetDeletionTimestamp() != nil || c.kind.IsRemoved(p.owner, child)
	c.changed = c.state == v1alpha1.Managed && hasChanged(child, c.spec)
	c.running = phaseOf(child) == string(cnatv1.AtRunning)
	c.ready = !c.going && !c.changed && current(child) && conditions.IsTrue(*child.StatusConditions(), conditions.Ready)
}

// current reports whether the status of an object is about its newest generation.
func current(object controller.Object) bool {
	return *object.StatusObservedGeneration() == object.GetGeneration()
}

// look returns the components of a Platform with their observed state: first the components in the spec, in the order
// of the spec, then the components that only the status lists and that have a child of the Platform. The child of a
// component that neither the spec nor the status lists does not belong to the Platform, whatever its owner reference
// and record: users who may write in the namespace can forge the owner reference and the record, but not the status.
func (r *reconciler) look(ctx context.Context, p *scope) ([]*component, error) {
	platform, all := p.platform, []*component(nil)
	known := map[string]bool{}
	for i := range platform.Spec.Components {
		spec := &platform.Spec.Components[i]
		k, found := r.kinds.named(kindOf(spec))
		if !found {
			continue // check returns an error for this component, which never had a child
		}
		c, err := listed(p, k, spec)
		if err != nil {
			return nil, err
		}
		known[k.Kind+"/"+c.name] = true
		all = append(all, c)
	}
	for _, said := range platform.Status.Components {
		k, found := r.kinds.named(said.Kind)
		name := string(said.Name)
		if !found || known[k.Kind+"/"+name] {
			continue
		}
		known[k.Kind+"/"+name] = true
		child, err := k.cached(platform.Spec.Namespace, childName(platform, name))
		if err == nil && child == nil {
			// The child may exist although the response of its creation was an error, and a component that is
			// removed from the status is never found again.
			child, err = k.live(ctx, platform.Spec.Namespace, childName(platform, name))
		}
		if err != nil {
			return nil, err
		}
		if child == nil || !p.owner.IsReferredToBy(child) || !p.owner.Made(child) || !p.owner.Owns(child) {
			continue
		}
		c := &component{kind: k, fact: fact{name: name, state: v1alpha1.Removed, had: recordedNeeds(child)}}
		c.observe(p, child)
		all = append(all, c)
	}
	return all, nil
}

// listed returns a component of the spec. If the Platform is being deleted, all components that are not
// Unmanaged are Removed.
func listed(p *scope, k childKind, spec *v1alpha1.PlatformComponent) (*component, error) {
	previous := previousStatus(p.platform.Status.Components, k.Kind, spec.Name)
	c := &component{
		kind: k, spec: spec, fact: fact{
			name: string(spec.Name), listed: true, state: spec.ManagementState, needs: needsOf(spec),
			announced: previous.Name != "", task: spec.At != nil,
		},
	}
	if c.state == "" {
		c.state = v1alpha1.Managed
	}
	if c.state == v1alpha1.Managed && p.platform.DeletionTimestamp != nil {
		c.state = v1alpha1.Removed
	}
	child, err := k.cached(p.platform.Spec.Namespace, childName(p.platform, c.name))
	if err != nil {
		return nil, err
	}
	c.observe(p, child)
	if child != nil {
		c.had = recordedNeeds(child)
		c.noted = isNoted(previous.Runs, child)
	}
	return c, nil
}

// previousStatus returns the status of a component in a list, or an empty one.
func previousStatus(
	all []v1alpha1.PlatformComponentStatus, kind string, name v1alpha1.ComponentName,
) v1alpha1.PlatformComponentStatus {
	i := slices.IndexFunc(all, func(s v1alpha1.PlatformComponentStatus) bool { return s.Name == name && s.Kind == kind })
	if i < 0 {
		return v1alpha1.PlatformComponentStatus{}
	}
	return all[i]
}
