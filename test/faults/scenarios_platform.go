package faults

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/test/framework"
)

var platforms = kind[v1alpha1.PlatformSpec]{
	name: "platform", resource: "platforms", sql: true,
	orphaned: []string{
		"apps/ns-web", "databases/ns-db", "externaldatabases/ns-outside", "ats/ns-task", "deployments/ns-web",
		"persistentvolumeclaims/ns-db", "sql/database/shop-ns",
	},
	fullSpec: everythingButRunOfPlatform, changes: framework.ChangesOfPlatform,
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

// everythingButRunOfPlatform returns a full spec whose App component has no beforeRollout and no route: see
// everythingButRun.
func everythingButRunOfPlatform() v1alpha1.PlatformSpec {
	spec := framework.EverythingOfPlatform()
	app := spec.Components[framework.WebComponent].App
	app.BeforeRollout, app.Route = nil, nil
	return spec
}

// setManagementState returns a step that sets the management state of the App component, and removes the dependency on
// this component.
func setManagementState(state v1alpha1.ManagementState) step {
	return platforms.update(func(s *v1alpha1.PlatformSpec) {
		s.Components[framework.WebComponent].ManagementState = state
		s.Components[framework.TaskComponent].DependsOn = nil
	})
}

// released is a Platform whose App depends on its task.
var released = platforms.with(func(s *v1alpha1.PlatformSpec) {
	s.Components[framework.TaskComponent].DependsOn = nil
	web := &s.Components[framework.WebComponent]
	web.DependsOn = append(web.DependsOn, s.Components[framework.TaskComponent].Name)
})

// The image of the App and the command of the task in the second release.
const (
	secondImage   = "second:1"
	secondCommand = "second"
)

// release changes the App and the task together.
var release = released.update(func(s *v1alpha1.PlatformSpec) {
	s.Components[framework.WebComponent].App.Image = secondImage
	s.Components[framework.TaskComponent].At.Command = []string{secondCommand}
})

// checkRelease checks that the App had its previous image until the task of the second release had succeeded. It also
// checks that no task was deleted while the task ran, and that the status lists both runs.
func checkRelease(u *user) {
	task, succeeded, image, runs := cnatv1.At{}, false, "", 0
	for _, e := range u.run.history.eventsUntil(newestVersion) {
		switch name := u.run.fullName(e.object); name {
		case "ats/ns-task":
			previous := task
			task = cnatv1.At{}
			if err := json.Unmarshal(e.raw, &task); err != nil {
				u.run.addViolation("decoding %s: %v", name, err)
			}
			if task.DeletionTimestamp != nil && previous.DeletionTimestamp == nil && previous.Status.Phase == cnatv1.AtRunning {
				u.run.addViolation("%s was deleted while it ran", name)
			}
			succeeded = succeeded || task.Spec.Command[0] == secondCommand &&
				conditions.IsTrue(task.Status.Conditions, cnatv1.AtComplete)
		case "apps/ns-web":
			var app v1alpha1.App
			if err := json.Unmarshal(e.raw, &app); err != nil {
				u.run.addViolation("decoding %s: %v", name, err)
			}
			if image != secondImage && app.Spec.Image == secondImage && !succeeded {
				u.run.addViolation("%s got its second image before the task had succeeded", name)
			}
			image = app.Spec.Image
		case "platforms/ns":
			var platform v1alpha1.Platform
			if err := json.Unmarshal(e.raw, &platform); err != nil {
				u.run.addViolation("decoding %s: %v", name, err)
			}
			for _, c := range platform.Status.Components {
				if c.Kind == "At" {
					runs = len(c.Runs)
				}
			}
		}
	}
	if image != secondImage || runs < 2 {
		u.run.addViolation("the image of the App is %s, and the status lists %d runs", image, runs)
	}
}

func platformScenarios() []scenario {
	all := append(platforms.scenarios(), platforms.driftScenario(),
		scenario{name: "platform-unmanaged", sql: true, setUp: []step{platforms.create},
			steps: []step{setManagementState(v1alpha1.Unmanaged), setManagementState(v1alpha1.Managed)}},
		scenario{name: "platform-unmanaged-delete", sql: true, setUp: []step{
			platforms.create, setManagementState(v1alpha1.Unmanaged),
		},
			steps: []step{platforms.delete}},
		scenario{name: "platform-task-changed", sql: true, setUp: []step{released.create}, steps: []step{release},
			check: isCreated("ats/ns-task", 2), invariant: checkRelease},
		scenario{name: "platform-taken", sql: true, setUp: []step{platforms.createReferences, func(u *user) {
			u.create(windlass, "apps", &v1alpha1.App{
				ObjectMeta: metav1.ObjectMeta{Name: u.run.namespace + "-web"}, Spec: v1alpha1.AppSpec{Image: "theirs:1", Port: 80},
			})
		}}, steps: []step{platforms.createObject}, foreign: []string{"apps/ns-web"}},
	)
	for i := range all {
		// These scenarios send the same requests as platform-create and platform-delete.
		all[i].onlyEventFaults = all[i].name == "platform-again" || all[i].name == "platform-early"
	}
	return all
}
