package faults

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/world"
)

var platforms = kind[v1alpha1.PlatformSpec]{
	name: "platform", resource: "platforms", sql: true,
	left:       []string{"apps/ns-web", "databases/ns-db", "externaldatabases/ns-outside", "ats/ns-task", "deployments/ns-web", "persistentvolumeclaims/ns-db", "sql/database/shop-ns"},
	everything: world.EverythingOfPlatform, changes: world.ChangesOfPlatform,
	refers: func(u *user) { refersOfApp(u); refersOfExternalDatabase(u) },
	object: func(u *user, spec v1alpha1.PlatformSpec) metav1.Object {
		spec = *spec.DeepCopy()
		spec.Namespace = u.run.scope
		for _, c := range spec.Components {
			if c.ExternalDatabase != nil {
				*c.ExternalDatabase = ofScope(*c.ExternalDatabase, u)
			}
		}
		return &v1alpha1.Platform{ObjectMeta: metav1.ObjectMeta{Name: u.run.scope}, Spec: spec}
	},
}

// inState has the component of the App be in a state.
func inState(state v1alpha1.ManagementState) step {
	return platforms.set(func(s *v1alpha1.PlatformSpec) {
		s.Components[world.WebComponent].ManagementState = state
		s.Components[world.TaskComponent].DependsOn = nil
	})
}

func platformScenarios() []scenario {
	all := append(platforms.scenarios(), platforms.drifted(),
		scenario{name: "platform-unmanaged", sql: true, setUp: []step{platforms.create},
			steps: []step{inState(v1alpha1.Unmanaged), inState(v1alpha1.Managed)}},
		scenario{name: "platform-unmanaged-delete", sql: true, setUp: []step{platforms.create, inState(v1alpha1.Unmanaged)},
			steps: []step{platforms.delete}},
		scenario{name: "platform-taken", sql: true, setUp: []step{platforms.refers, func(u *user) {
			u.create(windlass, "apps", &v1alpha1.App{ObjectMeta: metav1.ObjectMeta{Name: u.run.scope + "-web"}, Spec: v1alpha1.AppSpec{Image: "theirs:1", Port: 80}})
		}}, steps: []step{platforms.recreate}, foreign: []string{"apps/ns-web"}},
	)
	for i := range all {
		// Their requests are those of platform-create and platform-delete.
		all[i].known = all[i].name == "platform-again" || all[i].name == "platform-early"
	}
	return all
}
