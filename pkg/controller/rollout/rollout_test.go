package rollout_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/controller/rollout"
)

// rolledOut returns a Deployment whose Pods are all rolled out and available.
func rolledOut(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Generation: 1},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 1, Replicas: replicas, UpdatedReplicas: replicas, AvailableReplicas: replicas,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
			},
		},
	}
}

func TestSummarize(t *testing.T) {
	for name, test := range map[string]struct {
		replicas int32
		change   func(*appsv1.Deployment)
		state    controller.State
		reason   string
	}{
		"rolled out and available": {3, func(*appsv1.Deployment) {}, controller.StateReady, "Available"},
		"scaled to zero":           {0, func(*appsv1.Deployment) {}, controller.StateReady, "Available"},
		"changed, and not observed by its controller": {
			3, func(d *appsv1.Deployment) { d.Generation = 2 }, controller.StateProgressing, "RollingOut",
		},
		"with old Pods left": {
			3, func(d *appsv1.Deployment) { d.Status.Replicas = 4 }, controller.StateProgressing, "RollingOut",
		},
		"with new Pods to come": {
			3, func(d *appsv1.Deployment) {
				d.Status.UpdatedReplicas, d.Status.Replicas = 2, 2
			}, controller.StateProgressing, "RollingOut",
		},
		"with a Pod that has become unavailable": {
			3, func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 2 }, controller.StateProgressing, "PodsUnavailable",
		},
		"past its deadline": {3, func(d *appsv1.Deployment) {
			d.Status.Conditions[0].Status, d.Status.Conditions[0].Reason = corev1.ConditionFalse, "ProgressDeadlineExceeded"
		}, controller.StateStalled, "ProgressDeadlineExceeded"},
		"past its deadline, and changed since": {3, func(d *appsv1.Deployment) {
			d.Status.Conditions[0].Status = corev1.ConditionFalse
			d.Status.Conditions[0].Reason = "ProgressDeadlineExceeded"
			d.Generation = 2
		}, controller.StateProgressing, "RollingOut"},
		"whose Pods are rejected": {3, func(d *appsv1.Deployment) {
			d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
				Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
			})
			d.Status.AvailableReplicas = 2
		}, controller.StateDegraded, "FailedCreate"},
		"without a deadline": {
			3, func(d *appsv1.Deployment) { d.Status.Conditions = nil }, controller.StateReady, "Available",
		},
		"paused after it was rolled out": {
			3, func(d *appsv1.Deployment) { d.Status.Conditions[0].Reason = "DeploymentPaused" }, controller.StateReady,
			"Available",
		},
		"paused before it was rolled out": {3, func(d *appsv1.Deployment) {
			d.Spec.Paused, d.Status.UpdatedReplicas = true, 0
			d.Status.Conditions[0].Reason = "DeploymentPaused"
		}, controller.StateProgressing, "DeploymentPaused"},
	} {
		t.Run(name, func(t *testing.T) {
			d := rolledOut(test.replicas)
			test.change(d)
			got := rollout.Summarize(d, test.replicas)
			controllertest.Equal(t, "state", test.state, got.State)
			controllertest.Equal(t, "reason", test.reason, got.Reason)
		})
	}
}

func TestSummarizeSaysHowToResumePausedRollout(t *testing.T) {
	d := rolledOut(2)
	d.Name, d.Spec.Paused, d.Status.UpdatedReplicas = "web", true, 0
	controllertest.Equal(t, "message", "The newest Pods are not rolled out, because Deployment web is paused. To resume "+
		"the rollout, run `kubectl rollout resume deployment -n shop web`.", rollout.Summarize(d, 2).Message)
}

func TestSummarizeNamesSelectorOfUnavailablePods(t *testing.T) {
	d := rolledOut(2)
	d.Status.AvailableReplicas = 1
	controllertest.Equal(t, "message", "Not all Pods are available. See `kubectl get pods -n shop -l app=web`.",
		rollout.Summarize(d, 2).Message)
	controllertest.Equal(t, "state if one has to be available", controller.StateReady, rollout.Summarize(d, 1).State)
}
