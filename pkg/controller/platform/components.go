package platform

import (
	"slices"
	"strings"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/conditions"
)

// component is a component, what there is of it, and what becomes of it in a pass.
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
func (c *component) observe(p *pass, child controller.Object) {
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
// in its order, and after them those of which only a child is left.
func (r *reconciler) look(p *pass) ([]*component, error) {
	platform, all := p.platform, []*component(nil)
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
		all = append(all, c)
	}
	for _, k := range r.kinds {
		left, err := k.of(platform.UID)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(left, byObjectName)
		for _, child := range left {
			name, ok := componentName(platform, child)
			if !ok || !p.owner.Made(child) || !p.owner.Owns(child) || slices.ContainsFunc(all, func(c *component) bool { return c.listed && c.kind == k && c.name == name }) {
				continue
			}
			c := &component{kind: k, fact: fact{name: name, state: v1alpha1.Removed, had: recordedNeeds(child)}}
			c.observe(p, child)
			all = append(all, c)
		}
	}
	return all, nil
}

// listed is a component of the spec. Of a Platform that is being deleted all that is not
// Unmanaged is Removed.
func listed(p *pass, k kind, spec *v1alpha1.PlatformComponent) (*component, error) {
	c := &component{kind: k, spec: spec, fact: fact{name: string(spec.Name), listed: true, state: spec.ManagementState, needs: needsOf(spec)}}
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

func byObjectName(a, b controller.Object) int {
	return strings.Compare(a.GetName(), b.GetName())
}
