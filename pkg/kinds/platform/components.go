package platform

import (
	"context"
	"slices"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// component is a component, what there is of it, and what a reconcile does with it.
type component struct {
	fact
	kind kind
	// spec is nil if it is not listed.
	spec  *v1alpha1.PlatformComponent
	child controller.Object
	step  step
	// failed says that the step was not taken, and err why, as far as that is for users.
	failed bool
	err    error
}

// observe notes what there is of a component: child is nil if nothing has its name.
func (c *component) observe(p *scope, child controller.Object) {
	c.child, c.there = child, child != nil
	c.ours, c.bound, c.going, c.ready = false, false, false, false
	if child == nil {
		return
	}
	c.bound = p.owner.Bears(child)
	// One that was let go is this Platform's still, until the Platform goes.
	c.ours = p.owner.Owns(child) && (c.bound || p.platform.DeletionTimestamp == nil)
	c.going = child.GetDeletionTimestamp() != nil || c.kind.isRemoved(p.owner, child)
	c.ready = !c.going && current(child) && conditions.IsTrue(*child.StatusConditions(), conditions.Ready)
}

// current tells whether an object's status speaks of its newest generation.
func current(object controller.Object) bool {
	return *object.StatusObservedGeneration() == object.GetGeneration()
}

// look returns the components of a Platform by what the caches say: those of the spec,
// in its order, and after them those that only the status lists, as long as a child is left.
// What neither lists is none of the Platform's, whatever reference and record it bears:
// whoever may write in the namespace can forge both, but not the status.
func (r *reconciler) look(ctx context.Context, p *scope) ([]*component, error) {
	platform, all := p.platform, []*component(nil)
	known := map[string]bool{}
	for i := range platform.Spec.Components {
		spec := &platform.Spec.Components[i]
		k := r.kinds.named(kindOf(spec))
		if k == nil {
			continue // check says so; it never had a child
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
			// A component leaves the status for good, and a creation that was answered with an
			// error may have succeeded.
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

// listed is a component of the spec. Of a Platform that is being deleted all that is not
// Unmanaged is Removed.
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

// isAnnounced tells whether the status lists a component of the spec.
func isAnnounced(platform *v1alpha1.Platform, k kind, spec *v1alpha1.PlatformComponent) bool {
	return slices.ContainsFunc(platform.Status.Components, func(s v1alpha1.PlatformComponentStatus) bool {
		return s.Name == spec.Name && s.Kind == k.name()
	})
}
