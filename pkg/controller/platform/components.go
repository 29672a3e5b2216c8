package platform

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/children"
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
	err   error
}

// observe notes what there is of a component: child is nil if nothing has its name.
func (c *component) observe(owner children.Owner, child controller.Object) {
	c.child, c.there = child, child != nil
	c.ours, c.controlled, c.going, c.ready = false, false, false, false
	if child == nil {
		return
	}
	c.controlled = metav1.IsControlledBy(child, owner)
	// One that was let go is this Platform's still, until the Platform goes.
	c.ours = c.controlled || owner.GetDeletionTimestamp() == nil && owner.Orphaned(child)
	c.going = child.GetDeletionTimestamp() != nil
	c.ready = !c.going && current(child) && conditions.IsTrue(*child.StatusConditions(), conditions.Ready)
}

// current tells whether an object's status speaks of its newest generation.
func current(object controller.Object) bool {
	return *object.StatusObservedGeneration() == object.GetGeneration()
}

// look returns the components of a Platform by what the caches say: those of the spec,
// in its order, and after them those of which only a child is left.
func (r *reconciler) look(platform *v1alpha1.Platform, owner children.Owner) ([]*component, error) {
	var all []*component
	for i := range platform.Spec.Components {
		spec := &platform.Spec.Components[i]
		k := r.kinds.named(kindOf(spec))
		if k == nil && platform.DeletionTimestamp != nil {
			continue // it never had a child
		}
		if k == nil {
			return nil, controller.Terminal(controller.WithReason(reasonInvalid, fmt.Errorf("component %s is none of app, database, externalDatabase and at", spec.Name)))
		}
		c, err := listed(platform, owner, k, spec)
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
			if !ok || slices.ContainsFunc(all, func(c *component) bool { return c.listed && c.kind == k && c.name == name }) {
				continue
			}
			c := &component{kind: k, fact: fact{name: name, state: v1alpha1.Removed, needs: neededByChild(child)}}
			c.observe(owner, child)
			all = append(all, c)
		}
	}
	return all, nil
}

// listed is a component of the spec. Of a Platform that is being deleted all that is not
// Unmanaged is Removed.
func listed(platform *v1alpha1.Platform, owner children.Owner, k kind, spec *v1alpha1.PlatformComponent) (*component, error) {
	c := &component{kind: k, spec: spec, fact: fact{name: string(spec.Name), listed: true, state: spec.ManagementState, needs: needsOf(spec)}}
	if c.state == "" {
		c.state = v1alpha1.Managed
	}
	if c.state == v1alpha1.Managed && platform.DeletionTimestamp != nil {
		c.state = v1alpha1.Removed
	}
	child, err := k.get(platform.Spec.Namespace, childName(platform, c.name))
	if err != nil {
		return nil, err
	}
	c.observe(owner, child)
	return c, nil
}

func byObjectName(a, b controller.Object) int {
	if a.GetName() < b.GetName() {
		return -1
	}
	return 1
}
