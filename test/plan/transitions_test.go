//go:build integration

package plan

import (
	"slices"
	"testing"

	"k8s.io/client-go/dynamic"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// absent stands for the state of a component that is not in the spec.
const absent v1alpha1.ManagementState = "absent"

var states = []v1alpha1.ManagementState{v1alpha1.Managed, v1alpha1.Unmanaged, v1alpha1.Removed, absent}

// smallPlatforms returns the kind of Platforms with a component of each kind. The App and the Database have only the
// required fields, so that they refer to no other objects.
func smallPlatforms() kindOf[v1alpha1.PlatformSpec] {
	small := platforms
	small.references = createConnections
	small.spec = func(namespace string) v1alpha1.PlatformSpec {
		spec, db := platforms.spec(namespace), framework.SmallestDatabase()
		spec.Components[framework.WebComponent].App = &v1alpha1.AppSpec{Image: "shop:1"}
		spec.Components[framework.DatabaseComponent].Database = &db
		return spec
	}
	return small
}

// transitions returns a scenario for each transition of each component of a Platform from one state to another.
func transitions() (all []scenario) {
	small := smallPlatforms()
	for _, c := range small.spec("").Components {
		for _, from := range states {
			for _, to := range states {
				if from != to {
					all = append(all, transition(small, c.Name, from, to))
				}
			}
		}
	}
	return all
}

func transition(
	small kindOf[v1alpha1.PlatformSpec], name v1alpha1.ComponentName, from, to v1alpha1.ManagementState,
) scenario {
	s := small.scenario("Platform/"+string(name)+"-from-"+string(from)+"-to-"+string(to), inState(name, from),
		inState(name, to))
	if from != v1alpha1.Unmanaged {
		return s
	}
	// A component that was never Managed has no child.
	s.create = small.creator(unchanged)
	s.ready = func(t *testing.T, namespace string) {
		t.Helper()
		small.readiness(t, namespace)
		spec := small.spec(namespace)
		inState(name, from)(&spec)
		if err := small.update(t.Context(), dynamic.NewForConfigOrDie(shared.Config()), namespace, spec); err != nil {
			t.Fatal(err)
		}
		small.readiness(t, namespace)
	}
	return s
}

// inState returns a function that sets the state of a component. If the component has no child in this state, inState
// also removes the dependencies of other components on it.
func inState(name v1alpha1.ComponentName, state v1alpha1.ManagementState) func(*v1alpha1.PlatformSpec) {
	return func(spec *v1alpha1.PlatformSpec) {
		i := slices.IndexFunc(spec.Components, func(c v1alpha1.PlatformComponent) bool { return c.Name == name })
		spec.Components[i].ManagementState = state
		if state == v1alpha1.Managed || state == v1alpha1.Unmanaged {
			return
		}
		for j := range spec.Components {
			c := &spec.Components[j]
			c.DependsOn = slices.DeleteFunc(c.DependsOn, func(other v1alpha1.ComponentName) bool { return other == name })
		}
		if state == absent {
			spec.Components = slices.Delete(spec.Components, i, i+1)
		}
	}
}
