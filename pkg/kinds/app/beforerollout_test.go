package app

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

const (
	runName         = "web-before-rollout"
	tryDeployment   = "dry-run create deployments default/web"
	tryPatch        = "dry-run patch deployments default/web"
	createRun       = "create pods default/" + runName
	openRun         = "patch pods default/" + runName
	releaseRun      = openRun
	deleteRun       = "delete pods default/" + runName
	patchDeployment = "patch deployments default/web"
	runningMessage  = "Pod web-before-rollout runs beforeRollout. The operator rolls out the Pod template after the " +
		"command has succeeded. To stop the command, run `kubectl delete pod -n default web-before-rollout`; the run " +
		"then counts as failed."
	previousRunMessage = "Pod web-before-rollout runs beforeRollout for a previous spec. The operator waits until the " +
		"command ends. To stop the command, run `kubectl delete pod -n default web-before-rollout`."
)

func withMigration(app *v1alpha1.App) {
	app.Spec.BeforeRollout = &v1alpha1.AppBeforeRollout{Command: []string{"migrate"}}
}

func image(name string) func(*v1alpha1.App) {
	return func(app *v1alpha1.App) { app.Spec.Image = name }
}

// reconcile reconciles the App until it writes nothing, and returns the writes.
func (f fixture) reconcile() (writes []string) {
	f.T.Helper()
	for range 10 {
		r := f.Reconcile()
		if len(r.Writes) == 0 {
			return writes
		}
		writes = append(writes, r.Writes...)
	}
	f.T.Fatalf("the App does not come to rest: %q", writes)
	return nil
}

// run returns the stored Pod of beforeRollout, or nil.
func (f fixture) runPod() *corev1.Pod {
	return kindtest.Get[*corev1.Pod](f.Cluster, "default", runName)
}

// endRun ends the command of the Pod with an exit code.
func (f fixture) endRun(code int32, log string) {
	kindtest.Change(f.Cluster, "default", runName, func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodSucceeded
		if code != 0 {
			pod.Status.Phase = corev1.PodFailed
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: runContainer, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{
				ExitCode: code, Message: log, FinishedAt: metav1.NewTime(f.Clock.Now()),
			},
		}}}
	})
}

// ready returns the condition Ready as "status reason: message".
func (f fixture) ready() string {
	ready := ptr.Deref(conditions.Find(f.Object().Status.Conditions, conditions.Ready), metav1.Condition{})
	return string(ready.Status) + " " + ready.Reason + ": " + ready.Message
}

// rolledOutFixture returns a fixture whose App, with beforeRollout, is Ready with image web:1.
func rolledOutFixture(t *testing.T, changes ...func(*v1alpha1.App)) fixture {
	t.Helper()
	f := newFixture(t, example(append(changes, withMigration)...))
	f.reconcile()
	f.endRun(0, "")
	f.reconcile()
	f.rollOut()
	f.reconcile()
	controllertest.Equal(t, "phase", v1alpha1.AppReady, f.Object().Status.Phase)
	return f
}

// imageOf returns the image in the template of the stored Deployment.
func (f fixture) imageOf() string { return f.deployment().Spec.Template.Spec.Containers[0].Image }

func TestBeforeRolloutRunsBeforeTheFirstPods(t *testing.T) {
	f := newFixture(t, example(withMigration))
	r := f.Reconcile()
	controllertest.Equal(t, "first writes", []string{tryDeployment, createRun, updateStatus}, r.Writes)
	if !isGated(f.runPod()) {
		t.Error("the Pod may run before the status names it")
	}
	controllertest.Equal(t, "recorded Pod", f.runPod().UID, f.Object().Status.BeforeRolloutRuns[0].PodUID)
	controllertest.Equal(t, "second writes", []string{openRun}, f.Reconcile().Writes)
	if isGated(f.runPod()) {
		t.Error("the Pod does not run although the status names it")
	}
	controllertest.Equal(t, "writes while the command runs", nil, f.reconcile())
	controllertest.Equal(t, "condition", "False BeforeRolloutRunning: "+runningMessage, f.ready())
	controllertest.Equal(t, "phase", v1alpha1.AppDeploying, f.Object().Status.Phase)
	f.endRun(0, "")
	controllertest.Equal(t, "writes after the command", []string{
		updateStatus, releaseRun, createDeployment, createService, updateStatus,
	}, f.reconcile())
	ran := f.Object().Status.BeforeRolloutRuns
	controllertest.Equal(t, "runs", 1, len(ran))
	controllertest.Equal(t, "phase of the run", v1alpha1.BeforeRolloutSucceeded, ran[0].Phase)
	controllertest.Equal(t, "exit code", ptr.To[int32](0), ran[0].ExitCode)
}

func TestBeforeRolloutHoldsTheTemplateAlone(t *testing.T) {
	f := rolledOutFixture(t, withFiles("slow"))
	slow := f.mounted()
	f.Change(withFiles("fast"))
	f.Change(func(app *v1alpha1.App) { app.Spec.Image, app.Spec.Replicas = "web:2", ptr.To[int32](3) })
	f.reconcile()
	controllertest.Equal(t, "image", "web:1", f.imageOf())
	controllertest.Equal(t, "replicas", ptr.To[int32](3), f.deployment().Spec.Replicas)
	controllertest.Equal(t, "ConfigMap of the running Pods", slow, f.mounted())
	controllertest.Equal(t, "files of the running Pods", "slow", f.files("slow").Data["a.conf"])
	controllertest.Equal(t, "ConfigMap of the command", f.files("fast").Name, f.runPod().Spec.Volumes[0].ConfigMap.Name)
	f.endRun(0, "")
	f.reconcile()
	controllertest.Equal(t, "image after the command", "web:2", f.imageOf())
	controllertest.Equal(t, "ConfigMap after the command", f.files("fast").Name, f.mounted())
}

func TestFailedBeforeRolloutKeepsPreviousPods(t *testing.T) {
	f := rolledOutFixture(t)
	f.Change(image("web:2"))
	f.reconcile()
	f.endRun(3, "starting\nthere is no table orders")
	controllertest.Equal(t, "writes", []string{updateStatus, releaseRun}, f.reconcile())
	controllertest.Equal(t, "condition", "False BeforeRolloutFailed: beforeRollout failed: The command ended with exit "+
		"code 3. The Pods of the previous template keep running. Correct the cause. The operator runs the command again "+
		"after a change of beforeRollout, of the Pod template, or of a Secret or ConfigMap that the Pod template uses. See "+
		"`kubectl logs -n default web-before-rollout`. The last line of its log: there is no table orders", f.ready())
	controllertest.Equal(t, "phase", v1alpha1.AppFailed, f.Object().Status.Phase)
	controllertest.Equal(t, "image", "web:1", f.imageOf())

	f.Change(func(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](5) })
	f.reconcile()
	controllertest.Equal(t, "replicas", ptr.To[int32](5), f.deployment().Spec.Replicas)
	controllertest.Equal(t, "runs after another change", 2, len(f.Object().Status.BeforeRolloutRuns))

	f.Change(func(app *v1alpha1.App) { app.Spec.BeforeRollout.Command = []string{"migrate", "--create"} })
	f.reconcile()
	f.endRun(0, "")
	f.reconcile()
	controllertest.Equal(t, "image after the correction", "web:2", f.imageOf())
}

func TestBeforeRolloutNeverRunsTwiceForOneTemplate(t *testing.T) {
	for name, c := range map[string]struct {
		act  func(f fixture)
		runs int
	}{
		"the Pod of a run that succeeded is deleted": {func(f fixture) { f.Remove(f.runPod()) }, 1},
		"only beforeRollout changes": {
			func(f fixture) { f.Change(func(app *v1alpha1.App) { app.Spec.BeforeRollout.Args = []string{"-v"} }) }, 1,
		},
		"the operator restarts": {func(f fixture) { f.Restart() }, 1},
		"the number of Pods changes": {
			func(f fixture) { f.Change(func(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](2) }) }, 1,
		},
		"the App is rolled back": {func(f fixture) {
			f.Change(image("web:2"))
			f.reconcile()
			f.endRun(0, "")
			f.reconcile()
			controllertest.Equal(f.T, "image", "web:2", f.imageOf())
			f.Change(image("web:1"))
			f.reconcile()
			controllertest.Equal(f.T, "image after the rollback", "web:1", f.imageOf())
		}, 2},
		"a release fails, and is applied again after a rollback": {func(f fixture) {
			f.Change(image("web:2"))
			f.reconcile()
			f.endRun(1, "")
			f.reconcile()
			f.Change(image("web:1"))
			f.reconcile()
			f.Change(image("web:2"))
			f.reconcile()
			controllertest.Equal(f.T, "image", "web:1", f.imageOf())
			if !strings.Contains(f.ready(), "BeforeRolloutFailed") {
				f.T.Errorf("the condition is %s", f.ready())
			}
		}, 2},
		"the Pod is deleted while the command runs": {func(f fixture) {
			f.Change(image("web:2"))
			f.reconcile()
			f.Remove(f.runPod())
			f.reconcile()
			controllertest.Equal(f.T, "image", "web:1", f.imageOf())
			if !strings.Contains(f.ready(), "Pod web-before-rollout was deleted before the operator saw how its "+
				"command ended.") {
				f.T.Errorf("the condition is %s", f.ready())
			}
		}, 2},
		"another client takes the label off the Pod": {func(f fixture) {
			f.Change(image("web:2"))
			f.reconcile()
			kindtest.Change(f.Cluster, "default", runName, func(pod *corev1.Pod) { pod.Labels = nil })
			f.reconcile()
			f.endRun(0, "")
			f.reconcile()
			controllertest.Equal(f.T, "image", "web:2", f.imageOf())
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := rolledOutFixture(t)
			created := func() int { return strings.Count(strings.Join(f.Journal.Writes(), "\n"), createRun) }
			c.act(f)
			f.reconcile()
			controllertest.Equal(t, "created Pods", c.runs, created())
			controllertest.Equal(t, "runs in the status", c.runs, len(f.Object().Status.BeforeRolloutRuns))
		})
	}
}

func TestBeforeRolloutWaitsForThePreviousCommand(t *testing.T) {
	f := rolledOutFixture(t)
	f.Change(image("web:2"))
	f.reconcile()
	f.Change(image("web:3"))
	f.reconcile()
	controllertest.Equal(t, "condition", "False BeforeRolloutRunning: "+previousRunMessage, f.ready())
	f.Change(func(app *v1alpha1.App) { app.Spec.BeforeRollout = nil })
	f.reconcile()
	controllertest.Equal(t, "image without beforeRollout", "web:1", f.imageOf())
	f.Change(withMigration)
	f.endRun(1, "")
	f.reconcile()
	controllertest.Equal(t, "image of the command", "web:3", f.runPod().Spec.Containers[0].Image)
	f.endRun(0, "")
	f.reconcile()
	controllertest.Equal(t, "image", "web:3", f.imageOf())
	controllertest.Equal(t, "runs", 3, len(f.Object().Status.BeforeRolloutRuns))
	f.Change(func(app *v1alpha1.App) { app.Spec.BeforeRollout = nil })
	f.reconcile()
	if f.runPod() != nil {
		t.Error("the Pod stays although the App has no beforeRollout")
	}
}

func TestBeforeRolloutDeletesPreviousPodThatTheCacheLacks(t *testing.T) {
	f := rolledOutFixture(t)
	kindtest.Change(f.Cluster, "default", runName, func(pod *corev1.Pod) { pod.Labels = nil })
	f.Change(image("web:2"))
	r := f.Reconcile()
	controllertest.Equal(t, "writes", []string{tryPatch, createRun, deleteRun}, r.Writes[:3])
	controllertest.Equal(t, "requeue after", deletionRecheck, r.Result.RequeueAfter)
	f.reconcile()
	controllertest.Equal(t, "image of the command", "web:2", f.runPod().Spec.Containers[0].Image)
}

func TestBeforeRolloutReplacesPodThatDoesNotStart(t *testing.T) {
	f := rolledOutFixture(t)
	f.Change(image("web:typo"))
	f.reconcile()
	kindtest.Change(f.Cluster, "default", runName, func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: runContainer, Image: "web:typo", State: waits("ErrImagePull", "web:typo: not found")},
		}
	})
	f.reconcile()
	controllertest.Equal(t, "condition", "False ImagePullBackOff: Pod web-before-rollout, which runs beforeRollout, "+
		"does not start: the image web:typo was not found in its registry. "+
		"See `kubectl describe pod -n default web-before-rollout`.", f.ready())
	if !conditions.IsTrue(f.Object().Status.Conditions, conditions.Degraded) {
		t.Error("the App is not Degraded")
	}
	f.Change(image("web:2"))
	f.reconcile()
	controllertest.Equal(t, "image of the command", "web:2", f.runPod().Spec.Containers[0].Image)
	controllertest.Equal(t, "message of the run that was given up", "The spec changed before the command started: "+
		"the image web:typo was not found in its registry.",
		f.Object().Status.BeforeRolloutRuns[1].Message)
}

func TestBeforeRolloutReportsRejectedPod(t *testing.T) {
	f := newFixture(t, example(withMigration))
	f.Journal.FailNext("create", "pods", apierrors.NewForbidden(corev1.Resource("pods"), runName, errors.New("denied")))
	r := f.Reconcile()
	controllertest.Equal(t, "writes", []string{tryDeployment, createRun, updateStatus}, r.Writes)
	if !strings.HasPrefix(f.ready(), "False PodRejected: The API server rejected Pod web-before-rollout: ") {
		t.Errorf("the condition is %s", f.ready())
	}
	controllertest.Equal(t, "writes before the next attempt is due", nil, f.reconcile())
	f.Clock.Step(time.Second)
	f.reconcile()
	if f.runPod() == nil {
		t.Error("the Pod was not created again")
	}
}

func TestBeforeRolloutDoesNotRunForTemplateThatTheAPIServerRejects(t *testing.T) {
	for name, c := range map[string]struct {
		f    fixture
		verb string
	}{
		"a new App":          {newFixture(t, example(withMigration)), "create"},
		"an App with Pods":   {rolledOutFixture(t), "patch"},
		"an App with config": {rolledOutFixture(t, withFiles("slow")), "patch"},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.f
			f.Change(image("web:2"))
			if c.verb == "patch" {
				controllertest.Equal(t, "writes", []string{deleteRun, updateStatus}, f.Reconcile().Writes)
			}
			kind := appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind()
			rejected := apierrors.NewInvalid(kind, "web", field.ErrorList{
				field.Required(field.NewPath("spec", "template", "spec", "containers").Index(1).Child("image"), ""),
			})
			for range 3 { // a rejected patch is tried in three forms
				f.Journal.FailNext(c.verb, "deployments", rejected)
			}
			f.Reconcile()
			controllertest.Equal(t, "Pod of beforeRollout", (*corev1.Pod)(nil), f.runPod())
			if !strings.Contains(f.ready(), `"web" is invalid: spec.template.spec.containers[1].image: Required`) {
				t.Errorf("the condition is %s", f.ready())
			}
		})
	}
}

func TestBeforeRolloutRunsAlthoughWebhookDoesNotSupportDryRuns(t *testing.T) {
	f := newFixture(t, example(withMigration))
	f.Journal.FailNext("create", "deployments", apierrors.NewBadRequest(`admission webhook "a" does not support dry run`))
	controllertest.Equal(t, "writes", []string{tryDeployment, createRun, updateStatus}, f.Reconcile().Writes)
}

func TestBeforeRolloutDoesNotTouchForeignPod(t *testing.T) {
	foreign := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: runName, UID: "foreign", ResourceVersion: "3"},
	}
	f := newFixture(t, example(withMigration), foreign)
	f.Reconcile()
	controllertest.Equal(t, "UID", foreign.UID, f.runPod().UID)
	if !strings.Contains(f.ready(), "NameConflict: Pod default/web-before-rollout already exists and belongs to nobody") {
		t.Errorf("the condition is %s", f.ready())
	}
	controllertest.Equal(t, "Deployment", (*appsv1.Deployment)(nil), f.deployment())
}

// TestRunPodIsLikePodsOfApp compares the fields that decide how a container runs.
func TestRunPodIsLikePodsOfApp(t *testing.T) {
	app := example(withAllChildren, withMigration, func(app *v1alpha1.App) {
		app.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
		app.Spec.ServiceAccountName, app.Spec.Command = "web", []string{"serve"}
		app.Spec.Probe = &v1alpha1.AppProbe{Path: "/"}
	})
	template, pod := deploymentWith(app, nil).Spec.Template.Spec, runPodOf(app, runID{"t", "c"})
	its, ours := template.Containers[0], pod.Spec.Containers[0]
	controllertest.Equal(t, "environment", its.Env, ours.Env)
	controllertest.Equal(t, "mounts", its.VolumeMounts, ours.VolumeMounts)
	controllertest.Equal(t, "resources", its.Resources, ours.Resources)
	controllertest.Equal(t, "security context", its.SecurityContext, ours.SecurityContext)
	controllertest.Equal(t, "security context of the Pod", template.SecurityContext, pod.Spec.SecurityContext)
	controllertest.Equal(t, "account", "web", pod.Spec.ServiceAccountName)
	controllertest.Equal(t, "grace period", nil, pod.Spec.TerminationGracePeriodSeconds)
	controllertest.Equal(t, "image", "web:1", ours.Image)
	controllertest.Equal(t, "command", []string{"migrate"}, ours.Command)
	if ours.ReadinessProbe != nil || ours.Lifecycle != nil || len(ours.Ports) > 0 || ours.Args != nil {
		t.Errorf("the container is %+v", ours)
	}
	for name, value := range selectorOf(app) {
		if pod.Labels[name] != value {
			return
		}
	}
	t.Errorf("the Service selects the Pod: %v", pod.Labels)
}
