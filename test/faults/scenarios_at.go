package faults

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
)

const cnat = "cnat.programming-kubernetes.info"

// due is when an At is so at once, however wrong the operator's clock is.
const due = -2 * time.Hour

// createAt makes an At that is due in d.
func createAt(d time.Duration, change func(*cnatv1.AtSpec)) step {
	return func(u *user) {
		at := &cnatv1.At{ObjectMeta: metav1.ObjectMeta{Name: "task"}, Spec: cnatv1.AtSpec{Schedule: u.in(d), Command: []string{"true"}}}
		if change != nil {
			change(&at.Spec)
		}
		u.create(cnat, "ats", at)
	}
}

func deleteAt(u *user) { u.delete(cnat, "ats", "task") }

// changeAt changes a field of an At that waits.
func changeAt(value func(u *user) map[string]any) step {
	return func(u *user) { u.change(cnat, "ats", "task", map[string]any{"spec": value(u)}) }
}

func is(spec map[string]any) func(*user) map[string]any {
	return func(*user) map[string]any { return spec }
}

// deletePod deletes the Pod, unless somebody has done that before.
func deletePod(u *user) {
	for _, o := range u.run.history.current() {
		if resources[o.resource].Resource == "pods" {
			u.delete("", "pods", "task-pod")
		}
	}
}

// somebodysPod has the name of the At's.
func somebodysPod(u *user) {
	u.create("", "pods", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "task-pod"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "theirs", Image: "theirs:1", Command: []string{endless}}}},
	})
}

// changesOfAt are changes of each field of an At that waits for its time.
var changesOfAt = map[string]func(u *user) map[string]any{
	"schedule":           func(u *user) map[string]any { return map[string]any{"schedule": u.in(2 * time.Hour)} },
	"schedule-now":       func(u *user) map[string]any { return map[string]any{"schedule": u.in(0)} },
	"command":            is(map[string]any{"command": []string{"other"}}),
	"args":               is(map[string]any{"args": []string{"x"}}),
	"image":              is(map[string]any{"image": "other:1"}),
	"env":                is(map[string]any{"env": []map[string]any{{"name": "A", "value": "a"}}}),
	"envFrom":            is(map[string]any{"envFrom": []map[string]any{{"configMapRef": map[string]any{"name": "theirs"}}}}),
	"resources":          is(map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "1"}}}),
	"imagePullSecrets":   is(map[string]any{"imagePullSecrets": []map[string]any{{"name": "theirs"}}}),
	"serviceAccountName": is(map[string]any{"serviceAccountName": "default"}),
	"suspend":            is(map[string]any{"suspend": true}),
	"backoffLimit":       is(map[string]any{"backoffLimit": 2}),
	"ttl":                is(map[string]any{"ttlSecondsAfterFinished": 60}),
	"deadlines":          is(map[string]any{"startingDeadlineSeconds": 7200, "activeDeadlineSeconds": 60}),
}

func atScenarios() []scenario {
	later := createAt(time.Hour, nil)
	fails := createAt(due, func(s *cnatv1.AtSpec) { s.Command, s.BackoffLimit = []string{failing}, ptr.To[int32](1) })
	runs := createAt(due, func(s *cnatv1.AtSpec) { s.Command = []string{endless} })
	exceeds := createAt(due, func(s *cnatv1.AtSpec) { s.Command, s.ActiveDeadlineSeconds = []string{endless}, ptr.To[int64](60) })
	all := []scenario{
		{name: "at-create", steps: []step{createAt(due, nil)}, check: isMade("pods/task-pod", 1)},
		{name: "at-wait", steps: []step{later, wait(3 * time.Hour)}},
		{name: "at-suspended", setUp: []step{later, changeAt(is(map[string]any{"suspend": true})), wait(2 * time.Hour)},
			steps: []step{changeAt(is(map[string]any{"suspend": false}))}},
		{name: "at-fails", steps: []step{fails, wait(time.Hour)}, check: isMade("pods/task-pod", 2)},
		{name: "at-exceeds", steps: []step{exceeds, wait(time.Hour)}},
		{name: "at-runs", steps: []step{runs}},
		{name: "at-delete", setUp: []step{createAt(due, nil)}, steps: []step{deleteAt}},
		{name: "at-delete-running", setUp: []step{runs}, steps: []step{deleteAt}},
		{name: "at-orphan", setUp: []step{runs}, steps: []step{func(u *user) { u.orphan(cnat, "ats", "task") }}, check: orphans("ats", "pods/task-pod")},
		{name: "at-again", setUp: []step{createAt(due, nil)}, steps: []step{deleteAt, createAt(due, nil)}},
		{name: "at-again-at-once", setUp: []step{createAt(due, nil)}, steps: []step{func(u *user) { deleteAt(u); createAt(due, nil)(u) }}},
		{name: "at-taken", setUp: []step{somebodysPod}, steps: []step{createAt(due, nil)}, foreign: []string{"pods/task-pod"}},
		{name: "at-forgotten", steps: []step{createAt(due, nil), deletePod}},
	}
	for field, change := range changesOfAt {
		all = append(all, scenario{name: "at-change-" + field, setUp: []step{later}, steps: []step{changeAt(change)}, after: []step{wait(4 * time.Hour)}})
	}
	return all
}
