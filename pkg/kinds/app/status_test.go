package app

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestAutoscaledAppStaysReadyWhileItScalesUp(t *testing.T) {
	autoscaled := func(app *v1alpha1.App) {
		app.Spec.Autoscaling = &v1alpha1.AppAutoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 9}
	}
	for name, c := range map[string]struct {
		app    *v1alpha1.App
		wanted int32
		change func(*appsv1.Deployment)
		phase  v1alpha1.AppPhase
	}{
		"an App without an autoscaler needs all Pods": {
			example(), 6, func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 3 }, v1alpha1.AppDeploying,
		},
		"an App with an autoscaler needs its minimum of Pods": {
			example(autoscaled), 6, func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 3 }, v1alpha1.AppReady,
		},
		"an App with fewer Pods than its minimum is Deploying": {
			example(autoscaled), 6, func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 }, v1alpha1.AppDeploying,
		},
		"an App whose autoscaler may not create more Pods is Ready": {example(autoscaled), 6, func(d *appsv1.Deployment) {
			rejectPods(d)
			d.Status.AvailableReplicas = 4
		}, v1alpha1.AppReady},
		"an App that may not have its minimum of Pods is Failed": {example(autoscaled), 6, func(d *appsv1.Deployment) {
			rejectPods(d)
			d.Status.AvailableReplicas = 1
		}, v1alpha1.AppFailed},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Generation: 1}, Spec: appsv1.DeploymentSpec{
					Replicas: &c.wanted,
				}, Status: rolledOut(c.wanted),
			}
			d.Status.ObservedGeneration = 1
			c.change(d)
			controllertest.Equal(t, "phase", c.phase, phaseOf(summarizeRollout(d, neededBy(c.app, d, nil))))
		})
	}
}

func rejectPods(d *appsv1.Deployment) {
	d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
		Message: `pods "web-1-a" is forbidden: exceeded quota: small`,
	})
}

func TestAppSaysWhyPodsAreRejected(t *testing.T) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	rejectPods(d)
	s := summarizeRollout(d, neededBy(example(), d, nil))
	controllertest.Equal(t, "state", controller.StateDegraded, s.State)
	controllertest.Equal(t, "reason", "PodRejected", s.Reason)
	const want = `The API server rejects Pods of Deployment web: pods "web-1-a" is forbidden: exceeded quota: small. ` +
		"Raise the quota: a rollout needs room for one more Pod."
	controllertest.Equal(t, "message", want, s.Message)
}

// TestAppStaysReadyWithoutChangeOfPods has a Deployment whose controller has not observed the newest generation.
func TestAppStaysReadyWithoutChangeOfPods(t *testing.T) {
	same := func(*v1alpha1.App) {}
	withIngress := func(app *v1alpha1.App) { app.Spec.Ingress = &v1alpha1.AppIngress{Host: "a.example.com", Path: "/"} }
	unobserved := func(d *appsv1.Deployment) { d.Status.ObservedGeneration-- }
	scaled := func(d *appsv1.Deployment) { *d.Spec.Replicas = 2 }
	edited := func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "a" }
	minReady := func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 1 }
	for name, c := range map[string]struct {
		drift  func(*appsv1.Deployment) // the operator reverts it
		change func(*v1alpha1.App)
		phase  v1alpha1.AppPhase
	}{
		"nothing changes":                                {unobserved, same, v1alpha1.AppReady},
		"the number of Pods changes":                     {scaled, same, v1alpha1.AppDeploying},
		"the Pod template changes":                       {edited, same, v1alpha1.AppDeploying},
		"minReadySeconds changes":                        {minReady, same, v1alpha1.AppReady},
		"the App has a generation that was not observed": {minReady, withIngress, v1alpha1.AppDeploying},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t)
			f.changeDeployment(c.drift)
			f.Change(c.change)
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			controllertest.Equal(t, "phase", c.phase, f.Object().Status.Phase)
		})
	}
}

func TestReadyReplicasChangeOnlyWithPhaseOrReason(t *testing.T) {
	f := rollingFixture(t, threePods)
	for _, step := range []struct{ ready, want int32 }{{1, 0}, {2, 0}, {3, 3}} {
		f.changeDeployment(func(d *appsv1.Deployment) {
			d.Status = rolledOut(3)
			d.Status.ObservedGeneration, d.Status.UpdatedReplicas, d.Status.ReadyReplicas = d.Generation, step.ready, step.ready
		})
		controllertest.ErrorContains(t, "", f.Reconcile().Err)
		controllertest.Equal(t, "readyReplicas", step.want, f.Object().Status.ReadyReplicas)
	}
}
