package faults

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
)

const cnat = "cnat.programming-kubernetes.info"

// overdue is the offset of a schedule that is due at once, even if the operator's clock is an hour behind.
const overdue = -2 * time.Hour

// createAt returns a step that creates an At that is due in d. If change is not nil, it modifies the spec before the
// creation.
func createAt(d time.Duration, change func(*cnatv1.AtSpec)) step {
	return func(u *user) {
		at := &cnatv1.At{
			ObjectMeta: metav1.ObjectMeta{Name: "task"}, Spec: cnatv1.AtSpec{Schedule: u.timeIn(d), Command: []string{"true"}},
		}
		if change != nil {
			change(&at.Spec)
		}
		u.create(cnat, "ats", at)
	}
}

func deleteAt(u *user) { u.delete(cnat, "ats", "task") }

// changeAt returns a step that merges the fields that value returns into the spec of the At.
func changeAt(value func(u *user) map[string]any) step {
	return func(u *user) { u.patch(cnat, "ats", "task", map[string]any{"spec": value(u)}) }
}

func fixed(spec map[string]any) func(*user) map[string]any {
	return func(*user) map[string]any { return spec }
}

// deletePod deletes the Pod of the At, unless the fault has already deleted the Pod.
func deletePod(u *user) {
	for _, o := range u.run.history.current() {
		if resources[o.resource].Resource == "pods" {
			u.delete("", "pods", "task-pod")
		}
	}
}

// createForeignPod creates a Pod with the name of the At's Pod.
func createForeignPod(u *user) {
	u.create("", "pods", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "task-pod"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "theirs", Image: "theirs:1", Command: []string{endless}}},
		},
	})
}

// changesOfAt maps the last part of a scenario's name to a change of the spec of an At that waits for its schedule.
var changesOfAt = map[string]func(u *user) map[string]any{
	"schedule":     func(u *user) map[string]any { return map[string]any{"schedule": u.timeIn(2 * time.Hour)} },
	"schedule-now": func(u *user) map[string]any { return map[string]any{"schedule": u.timeIn(0)} },
	"command":      fixed(map[string]any{"command": []string{"other"}}),
	"args":         fixed(map[string]any{"args": []string{"x"}}),
	"image":        fixed(map[string]any{"image": "other:1"}),
	"env":          fixed(map[string]any{"env": []map[string]any{{"name": "A", "value": "a"}}}),
	"envFrom": fixed(map[string]any{
		"envFrom": []map[string]any{{"configMapRef": map[string]any{"name": "theirs"}}},
	}),
	"resources":          fixed(map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "1"}}}),
	"imagePullSecrets":   fixed(map[string]any{"imagePullSecrets": []map[string]any{{"name": "theirs"}}}),
	"serviceAccountName": fixed(map[string]any{"serviceAccountName": "default"}),
	"suspend":            fixed(map[string]any{"suspend": true}),
	"backoffLimit":       fixed(map[string]any{"backoffLimit": 2}),
	"ttl":                fixed(map[string]any{"ttlSecondsAfterFinished": 60}),
	"deadlines":          fixed(map[string]any{"startingDeadlineSeconds": 7200, "activeDeadlineSeconds": 60}),
}

func atScenarios() []scenario {
	later := createAt(time.Hour, nil)
	fails := createAt(overdue, func(s *cnatv1.AtSpec) { s.Command, s.BackoffLimit = []string{failing}, ptr.To[int32](1) })
	runs := createAt(overdue, func(s *cnatv1.AtSpec) { s.Command = []string{endless} })
	exceeds := createAt(overdue, func(s *cnatv1.AtSpec) {
		s.Command = []string{endless}
		s.ActiveDeadlineSeconds = ptr.To[int64](60)
	})
	all := []scenario{
		{name: "at-create", steps: []step{createAt(overdue, nil)}, check: isCreated("pods/task-pod", 1)},
		{name: "at-wait", steps: []step{later, wait(3 * time.Hour)}},
		{name: "at-suspended", setUp: []step{later, changeAt(fixed(map[string]any{"suspend": true})), wait(2 * time.Hour)},
			steps: []step{changeAt(fixed(map[string]any{"suspend": false}))}},
		{name: "at-fails", steps: []step{fails, wait(time.Hour)}, check: isCreated("pods/task-pod", 2)},
		{name: "at-exceeds", steps: []step{exceeds, wait(time.Hour)}},
		{name: "at-runs", steps: []step{runs}},
		{name: "at-delete", setUp: []step{createAt(overdue, nil)}, steps: []step{deleteAt}},
		{name: "at-delete-running", setUp: []step{runs}, steps: []step{deleteAt}},
		{
			name: "at-orphan", setUp: []step{runs}, steps: []step{func(u *user) { u.orphan(cnat, "ats", "task") }},
			check: leavesOrphans("ats", "pods/task-pod"),
		},
		{name: "at-again", setUp: []step{createAt(overdue, nil)}, steps: []step{deleteAt, createAt(overdue, nil)}},
		{
			name: "at-again-at-once", setUp: []step{createAt(overdue, nil)}, steps: []step{
				func(u *user) { deleteAt(u); createAt(overdue, nil)(u) },
			},
		},
		{
			name: "at-taken", setUp: []step{createForeignPod}, steps: []step{
				createAt(overdue, nil),
			}, foreign: []string{"pods/task-pod"},
		},
		{name: "at-forgotten", steps: []step{createAt(overdue, nil), deletePod}},
	}
	for i := range all {
		all[i].invariant = checkRunsOnce
	}
	all = append(all, lostPods(runs)...)
	for field, change := range changesOfAt {
		all = append(all, scenario{
			name: "at-change-" + field, setUp: []step{later}, steps: []step{
				changeAt(change),
			}, after: []step{wait(4 * time.Hour)},
		})
	}
	return all
}

// lostPods returns scenarios of an At that loses its Pod, or whose Pod has an injected container. runs creates an At
// whose command does not end.
func lostPods(runs step) (all []scenario) {
	twice := createAt(overdue, func(s *cnatv1.AtSpec) { s.Command, s.BackoffLimit = []string{endless}, ptr.To[int32](1) })
	limited := createAt(overdue, func(s *cnatv1.AtSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](24 * 60 * 60) })
	for _, how := range podLosses {
		all = append(all, scenario{
			name: "at-" + how, loss: how, steps: []step{
				runs, losePod(how), wait(time.Hour),
			}, check: isCreated("pods/task-pod", 1),
		})
	}
	all = append(all, []scenario{
		{
			name: "at-loses", steps: []step{createAt(overdue, nil), wait(time.Hour)}, losesPods: true,
			check: isCreated("pods/task-pod", 1),
		},
		{
			name: "at-retries", steps: []step{twice, losePod(podDeleted), wait(time.Hour)}, check: isCreated("pods/task-pod", 2),
		},
		{name: "at-injected", injects: true, steps: []step{createAt(overdue, nil)}, check: isComplete},
		{name: "at-injected-limited", injects: true, steps: []step{limited, wait(time.Hour)}, check: isComplete},
	}...)
	for i := range all {
		all[i].invariant = func(u *user) {
			checkRunsOnce(u)
			checkFails(u)
		}
	}
	return all
}

// checkFails checks that an At has failed if a step has lost its Pod.
func checkFails(u *user) {
	for _, o := range u.run.history.current() {
		name := u.run.fullName(o)
		if name == "ats/task" && u.run.scenario.loss != "" && !strings.Contains(string(o.raw), `"type":"Failed"`) {
			u.run.addViolation("the At has not failed: %s", o.raw)
		}
	}
}

// isComplete is a check that the At has succeeded and no container of its Pod runs.
func isComplete(o outcome) (problems []string) {
	for name, want := range map[string]string{"ats/task": "type:Complete", "pods/task-pod": "reason:DeadlineExceeded"} {
		if text := fmt.Sprint(o.final[name]); !strings.Contains(text, want) {
			problems = append(problems, name+" lacks "+want+": "+text)
		}
	}
	return problems
}
