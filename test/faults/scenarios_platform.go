package faults

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/world"
)

var platforms = kind[v1alpha1.PlatformSpec]{
	name: "platform", resource: "platforms", sql: true,
	orphaned: []string{"apps/ns-web", "databases/ns-db", "externaldatabases/ns-outside", "ats/ns-task", "deployments/ns-web", "persistentvolumeclaims/ns-db", "sql/database/shop-ns"},
	fullSpec: world.EverythingOfPlatform, changes: world.ChangesOfPlatform,
	createReferences: func(u *user) { createAppReferences(u); createConnectionSecrets(u) },
	object: func(u *user, spec v1alpha1.PlatformSpec) metav1.Object {
		spec = *spec.DeepCopy()
		spec.Namespace = u.run.namespace
		for _, c := range spec.Components {
			if c.ExternalDatabase != nil {
				*c.ExternalDatabase = withUniqueNames(*c.ExternalDatabase, u)
			}
		}
		return &v1alpha1.Platform{ObjectMeta: metav1.ObjectMeta{Name: u.run.namespace}, Spec: spec}
	},
}

// setManagementState returns a step that sets the management state of the App component, and removes the dependency on
// this component.
func setManagementState(state v1alpha1.ManagementState) step {
	return platforms.update(func(s *v1alpha1.PlatformSpec) {
		s.Components[world.WebComponent].ManagementState = state
		s.Components[world.TaskComponent].DependsOn = nil
	})
}

func platformScenarios() []scenario {
	all := append(platforms.scenarios(), platforms.driftScenario(),
		scenario{name: "platform-unmanaged", sql: true, setUp: []step{platforms.create},
			steps: []step{setManagementState(v1alpha1.Unmanaged), setManagementState(v1alpha1.Managed)}},
		scenario{name: "platform-unmanaged-delete", sql: true, setUp: []step{platforms.create, setManagementState(v1alpha1.Unmanaged)},
			steps: []step{platforms.delete}},
		scenario{name: "platform-taken", sql: true, setUp: []step{platforms.createReferences, func(u *user) {
			u.create(windlass, "apps", &v1alpha1.App{ObjectMeta: metav1.ObjectMeta{Name: u.run.namespace + "-web"}, Spec: v1alpha1.AppSpec{Image: "theirs:1", Port: 80}})
		}}, steps: []step{platforms.createObject}, foreign: []string{"apps/ns-web"}},
	)
	for i := range all {
		// These scenarios send the same requests as platform-create and platform-delete.
		all[i].onlyEventFaults = all[i].name == "platform-again" || all[i].name == "platform-early"
	}
	return all
}
