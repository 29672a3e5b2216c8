package platform

import (
	"context"
	"slices"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// component is a component with its observed state and its next step.
type component struct {
	fact
	kind kind
	// spec is nil if the spec of the Platform does not list the component.
	spec  *v1alpha1.PlatformComponent
	child controller.Object
	step  step
	// failed says that the step failed. err is its error, unless that says nothing about the component.
	failed bool
	err    error
}

// observe sets the observed state. child is nil if no object has the name of the child.
func (c *component) observe(p *scope, child controller.Object) {
	c.child, c.there = child, child != nil
	c.ours, c.bound, c.going, c.ready = false, false, false, false
	if child == nil {
		return
	}
	c.bound = p.owner.Bears(child)
	// A released child still belongs to the Platform until the Platform is being deleted.
	c.ours = p.owner.Owns(child) && (c.bound || p.platform.DeletionTimestamp == nil)
	c.going = child.GetDeletionTimestamp() != nil || c.kind.isRemoved(p.owner, child)
	c.ready = !c.going && current(child) && conditions.IsTrue(*child.StatusConditions(), conditions.Ready)
}

// current reports whether the status of an object is about its newest generation.
func current(object controller.Object) bool {
	return *object.StatusObservedGeneration() == object.GetGeneration()
}

// look returns the components of a Platform as the caches have them: first those in the spec, in its
// order, then those that only the status lists, as long as a child exists. An object that neither lists
// does not belong to the Platform, whatever owner reference and record it has: users who may write in the
// namespace can forge both, but not the status.
func (r *reconciler) look(ctx context.Context, p *scope) ([]*component, error) {
	platform, all := p.platform, []*component(nil)
	known := map[string]bool{}
	for i := range platform.Spec.Components {
		spec := &platform.Spec.Components[i]
		k := r.kinds.named(kindOf(spec))
		if k == nil {
			continue // check returns an error for it; it never had a child
		}
		c, err := listed(p, k, spec)
		if err != nil {
			return nil, err
		}
		known[k.name()+"/"+c.name] = true
		all = append(all, c)
	}
	for _, said := range platform.Status.Components {
		k, name := r.kinds.named(said.Kind), string(said.Name)
		if k == nil || known[k.name()+"/"+name] {
			continue
		}
		known[k.name()+"/"+name] = true
		child, err := k.get(platform.Spec.Namespace, childName(platform, name))
		if err == nil && child == nil {
			// A component that leaves the status is not found again, and a creation may have succeeded
			// although its response was an error.
			child, err = k.live(ctx, platform.Spec.Namespace, childName(platform, name))
		}
		if err != nil {
			return nil, err
		}
		if child == nil || !p.owner.Bears(child) || !p.owner.Made(child) || !p.owner.Owns(child) {
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
func listed(p *scope, k kind, spec *v1alpha1.PlatformComponent) (*component, error) {
	c := &component{kind: k, spec: spec, fact: fact{name: string(spec.Name), listed: true, state: spec.ManagementState, needs: needsOf(spec), announced: isAnnounced(p.platform, k, spec)}}
	if c.state == "" {
		c.state = v1alpha1.Managed
	}
	if c.state == v1alpha1.Managed && p.platform.DeletionTimestamp != nil {
		c.state = v1alpha1.Removed
	}
	child, err := k.get(p.platform.Spec.Namespace, childName(p.platform, c.name))
	if err != nil {
		return nil, err
	}
	c.observe(p, child)
	if child != nil {
		c.had = recordedNeeds(child)
	}
	return c, nil
}

// isAnnounced reports whether the status lists a component of the spec.
func isAnnounced(platform *v1alpha1.Platform, k kind, spec *v1alpha1.PlatformComponent) bool {
	return slices.ContainsFunc(platform.Status.Components, func(s v1alpha1.PlatformComponentStatus) bool {
		return s.Name == spec.Name && s.Kind == k.name()
	})
}
