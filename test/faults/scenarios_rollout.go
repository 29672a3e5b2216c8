package faults

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// releasing is an App that runs a command before each rollout.
var releasing = apps.with(func(s *v1alpha1.AppSpec) {
	s.ServiceAccountName = "" // the namespace of a run has the account default
	s.Ingress, s.Autoscaling, s.DatabaseRef = nil, nil, nil
	s.BeforeRollout = &v1alpha1.AppBeforeRollout{Command: []string{"migrate"}}
})

// releaseOf returns a step that changes the image and the command.
func releaseOf(image, command string) step {
	return releasing.update(func(s *v1alpha1.AppSpec) { s.Image, s.BeforeRollout.Command = image, []string{command} })
}

// endRunByUser deletes the Pod of beforeRollout if its command runs. The Pod may be missing, because a fault has
// deleted it.
func endRunByUser(u *user) {
	if !isRunning(u) { // with a frozen cache, the command starts only at rest
		u.run.awaitRest()
	}
	if isRunning(u) {
		u.delete("", "pods", runPodName)
	}
}

// isRunning reports whether the command of beforeRollout runs.
func isRunning(u *user) bool {
	return slices.ContainsFunc(u.run.history.current(), func(o *object) bool {
		var pod corev1.Pod
		return u.run.fullName(o) == "pods/"+runPodName && json.Unmarshal(o.raw, &pod) == nil &&
			pod.Status.Phase == corev1.PodRunning
	})
}

const runPodName = "shop-before-rollout"

// rolloutScenarios returns the scenarios of an App with beforeRollout.
func rolloutScenarios() []scenario {
	all := []scenario{
		{name: "rollout-create", steps: []step{releasing.create}},
		{name: "rollout-image", setUp: []step{releasing.create}, steps: []step{releaseOf("shop:2", "migrate")}},
		{
			name: "rollout-back", setUp: []step{
				releasing.create, releaseOf("shop:2", "migrate"),
			}, steps: []step{releaseOf("shop:1", "migrate")},
		},
		{
			name: "rollout-fails", setUp: []step{releasing.create}, steps: []step{
				releaseOf("shop:2", failing), releaseOf("shop:2", "migrate"),
			},
		},
		{
			name: "rollout-previous", setUp: []step{
				releasing.create, releaseOf("shop:2", endless),
			}, steps: []step{releaseOf("shop:3", "migrate"), endRunByUser},
		},
		{
			name: "rollout-interrupted", setUp: []step{releasing.create}, steps: []step{
				releaseOf("shop:2", endless), endRunByUser,
			}, earlyDeletion: indexOf("", "pods"),
		},
		{
			name: "rollout-removed", setUp: []step{releasing.create}, steps: []step{
				releasing.update(func(s *v1alpha1.AppSpec) { s.Image, s.BeforeRollout = "shop:2", nil }),
			},
		},
		{name: "rollout-loses", steps: []step{releasing.create}, losesPods: true},
		{
			name: "rollout-injected", injects: true, steps: []step{releasing.create, releaseOf("shop:2", "migrate")},
			check: isInTime,
		},
	}
	for i := range all {
		all[i].invariant = func(u *user) {
			checkRollouts(u)
			checkReleased(u)
		}
	}
	return all
}

// isInTime is a check that no container of the Pod of beforeRollout runs.
func isInTime(o outcome) []string {
	name := "pods/" + runPodName
	if text := fmt.Sprint(o.final[name]); !strings.Contains(text, "reason:DeadlineExceeded") {
		return []string{"a container of " + name + " runs: " + text}
	}
	return nil
}

// checkRollouts checks that no command ran twice for one template, and that no template was rolled out before its
// command had succeeded.
func checkRollouts(u *user) {
	const digest = "windlass.dev/template-digest"
	app, succeeded, ran := &v1alpha1.App{}, map[string]bool{}, map[string]types.UID{}
	for _, e := range u.run.history.eventsUntil(newestVersion) {
		switch u.run.fullName(e.object) {
		case "apps/shop":
			app = &v1alpha1.App{}
			_ = json.Unmarshal(e.raw, app)
			if runs := app.Status.BeforeRolloutRuns; len(runs) > 1 && runs[1].Phase == v1alpha1.BeforeRolloutRunning {
				u.run.addViolation("a command ran before the previous command had ended")
			}
		case "pods/" + runPodName:
			var pod corev1.Pod
			_ = json.Unmarshal(e.raw, &pod)
			template := pod.Annotations[digest]
			command := template + " " + pod.Annotations["windlass.dev/command-digest"]
			if first, found := ran[command]; pod.Status.Phase != corev1.PodPending && found && first != pod.UID {
				u.run.addViolation("a command ran twice for one template")
			}
			if pod.Status.Phase != corev1.PodPending {
				ran[command] = pod.UID
			}
			for _, status := range pod.Status.ContainerStatuses {
				ended := status.State.Terminated
				succeeded[template] = succeeded[template] || status.Name == "before-rollout" && ended != nil && ended.ExitCode == 0
			}
		case "deployments/shop":
			var d appsv1.Deployment
			_ = json.Unmarshal(e.raw, &d)
			if app.Spec.BeforeRollout != nil && !succeeded[d.Spec.Template.Annotations[digest]] {
				u.run.addViolation("a template was rolled out before its command had succeeded")
			}
		}
	}
}
