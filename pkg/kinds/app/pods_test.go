package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// podOf returns a Pod of a Deployment's newest template, with the given status.
func podOf(d *appsv1.Deployment, name string, status corev1.PodStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: name, Labels: d.Spec.Template.Labels, Annotations: d.Spec.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: d.Name + "-1", Controller: ptr.To(true)},
			},
		},
		Status: status,
	}
}

// container returns the status of a Pod whose container has this state. The container runs if state is empty.
func container(state corev1.ContainerState, last corev1.ContainerState, restarts int32) corev1.PodStatus {
	ready := corev1.ConditionFalse
	if state.Running != nil {
		ready = corev1.ConditionTrue
	}
	return corev1.PodStatus{
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: defaultContainer, Image: "web:1", State: state, LastTerminationState: last, RestartCount: restarts},
		},
	}
}

func waits(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func crashed(log string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Message: log}}
}

func (f fixture) runs() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(f.Clock.Now())}}
}

// rollingFixture returns a fixture whose Deployment has no available Pod yet.
func rollingFixture(t testing.TB, changes ...func(*v1alpha1.App)) fixture {
	t.Helper()
	f := newFixture(t, example(changes...))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	f.changeDeployment(func(d *appsv1.Deployment) {
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1}
	})
	return f
}

func TestAppSaysWhyPodsDoNotRun(t *testing.T) {
	injected := kindtest.InjectedPods(defaultContainer, time.Now())["an injected init container that crashes"]
	for name, c := range map[string]struct {
		status          corev1.PodStatus
		reason, message string
		phase           v1alpha1.AppPhase
	}{
		"an image that does not exist": {
			container(waits("ErrImagePull", "web:1: not found"), corev1.ContainerState{}, 0), "ImagePullBackOff",
			"the image web:1 was not found in its registry. 1 of 1 new Pods have a problem; 0 Pods are ready. See " +
				"`kubectl describe pod -n default web-1-a`.", "Failed",
		},
		"a container that crashes": {
			container(waits("CrashLoopBackOff", ""), crashed("starting\npanic: no DATABASE_URL\n"), 4), "CrashLoopBackOff",
			"the container ended with exit code 3. 1 of 1 new Pods have a problem; 0 Pods are ready. See `kubectl " +
				"logs -n default web-1-a --previous`. The last line of its log: panic: no DATABASE_URL", "Failed",
		},
		"an injected container that crashes": {
			injected.Status, "CrashLoopBackOff", injected.Problem + ". 1 of 1 new Pods have a problem; 0 Pods are ready. See " +
				"`kubectl logs -n default web-1-a --previous -c mesh`. " + injected.Words, "Failed",
		},
		"an unschedulable Pod": {
			corev1.PodStatus{
				Conditions: []corev1.PodCondition{
					{
						Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
						Message: "0/3 nodes are available",
					},
				},
			},
			"Unschedulable", "the scheduler found no node for the Pod. 1 of 1 new Pods have a problem; 0 Pods are ready. See " +
				"`kubectl describe pod -n default web-1-a`. The scheduler says: 0/3 nodes are available.", "Deploying",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := rollingFixture(t)
			f.Store(podOf(f.deployment(), "web-1-a", c.status))
			r := f.Reconcile()
			controllertest.ErrorContains(t, "", r.Err)
			app := f.Object()
			controllertest.Equal(t, "phase", c.phase, app.Status.Phase)
			if len(r.Events) != 1 || !strings.HasPrefix(r.Events[0], "Warning "+c.reason+" ") ||
				!strings.Contains(r.Events[0], c.message) {
				t.Errorf("the events are %q, wanted a Warning %s with %q", r.Events, c.reason, c.message)
			}
			controllertest.Equal(t, "writes of the next reconcile", nil, f.Reconcile().Writes)
		})
	}
}

func TestAppWhosePodsAreReplacedIsRollingOut(t *testing.T) {
	f := rollingFixture(t)
	f.Store(podOf(f.deployment(), "web-1-a", container(waits("ErrImagePull", ""), corev1.ContainerState{}, 0)))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "phase", v1alpha1.AppFailed, f.Object().Status.Phase)
	f.Change(func(app *v1alpha1.App) { app.Spec.Image = "web:2" })
	f.changeDeployment(func(d *appsv1.Deployment) { d.Generation++ })
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "conditions", []string{
		"Degraded=False AsExpected", "Progressing=True RollingOut: The newest Pods are being rolled out.",
		"Ready=False RollingOut: The newest Pods are being rolled out.",
	}, controllertest.Conditions(f.Object()))
}

func TestCrashLoopCostsOneStatusWrite(t *testing.T) {
	f := rollingFixture(t)
	d := f.deployment()
	f.Store(podOf(d, "web-1-a", container(waits("CrashLoopBackOff", ""), crashed("at 12:00:00 no database"), 2)))
	controllertest.Equal(t, "writes for the crash", []string{updateStatus}, f.Reconcile().Writes)
	for crash := range int32(5) {
		restarts := 3 + crash
		f.Clock.Step(time.Minute)
		for _, status := range []corev1.PodStatus{
			container(f.runs(), crashed(fmt.Sprintf("at 12:0%d:00 no database", crash)), restarts),
			container(crashed(fmt.Sprintf("at 12:0%d:30 no database", crash)), crashed("earlier"), restarts),
			container(waits("CrashLoopBackOff", ""), crashed(fmt.Sprintf("at 12:0%d:30 no database", crash)), restarts),
		} {
			kindtest.Change(f.Cluster, "default", "web-1-a", func(p *corev1.Pod) { p.Status = status })
			f.changeDeployment(func(d *appsv1.Deployment) { // without a probe, the Pod is available while it runs
				d.Status = rolledOut(1)
				d.Status.ObservedGeneration = d.Generation
				if status.Conditions[0].Status != corev1.ConditionTrue {
					d.Status.AvailableReplicas = 0
				}
			})
			controllertest.Equal(t, "writes", nil, f.Reconcile().Writes)
		}
	}
}

func TestAppIsReadyOnceCrashedContainerRuns(t *testing.T) {
	f := rollingFixture(t)
	f.Store(podOf(f.deployment(), "web-1-a", container(waits("CrashLoopBackOff", ""), crashed("no database"), 2)))
	f.Reconcile()
	kindtest.Change(f.Cluster, "default", "web-1-a", func(p *corev1.Pod) {
		p.Status = container(f.runs(), crashed("no database"), 3)
	})
	f.rollOut()
	controllertest.Equal(t, "RequeueAfter right after the restart", 30*time.Second, f.Reconcile().Result.RequeueAfter)
	f.Clock.Step(30 * time.Second)
	f.Reconcile()
	controllertest.Equal(t, "phase 30 s after the restart", v1alpha1.AppReady, f.Object().Status.Phase)
}

func TestCrashLoopAfterDeadlineCostsNoStatusWrites(t *testing.T) {
	f := rollingFixture(t)
	f.Store(podOf(f.deployment(), "web-1-a", container(waits("CrashLoopBackOff", ""), crashed("no database"), 2)))
	f.changeDeployment(func(d *appsv1.Deployment) {
		d.Status.Conditions = []appsv1.DeploymentCondition{
			{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded",
				Message: "It timed out.",
			},
		}
	})
	f.Reconcile()
	ready := conditions.Find(f.Object().Status.Conditions, conditions.Ready)
	if ready.Reason != "ProgressDeadlineExceeded" || !strings.HasPrefix(ready.Message, "It timed out. Pod web-1-a, ") ||
		!strings.HasSuffix(ready.Message, "The last line of its log: no database") {
		t.Errorf("the condition Ready is %+v", ready)
	}
	kindtest.Change(f.Cluster, "default", "web-1-a", func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].LastTerminationState = crashed("still no database")
	})
	controllertest.Equal(t, "writes for the next crash", nil, f.Reconcile().Writes)
	kindtest.Change(f.Cluster, "default", "web-1-a", func(p *corev1.Pod) {
		p.Status = container(f.runs(), crashed("still no database"), 3)
	})
	f.rollOut()
	f.Reconcile()
	controllertest.Equal(t, "reason while the container runs for a moment", "CrashLoopBackOff",
		conditions.Find(f.Object().Status.Conditions, conditions.Ready).Reason)
}

func TestReadyAppStaysReadyWhileContainerRestarts(t *testing.T) {
	f := readyFixture(t)
	f.Store(podOf(f.deployment(), "web-1-a", container(f.runs(), crashed("restarted once a day"), 9)))
	controllertest.Equal(t, "writes", nil, f.Reconcile().Writes)
	controllertest.Equal(t, "phase", v1alpha1.AppReady, f.Object().Status.Phase)
}

func TestProblemsOfPodsOfNewestTemplateComeFirst(t *testing.T) {
	app := example()
	d := deploymentWith(app, nil)
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	pull := container(waits("ImagePullBackOff", ""), corev1.ContainerState{}, 0)
	running := container(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, corev1.ContainerState{}, 0)
	previous := func(p *corev1.Pod) *corev1.Pod {
		p.Annotations = map[string]string{TemplateDigestAnnotation: "previous"}
		return p
	}
	deleted := podOf(d, "deleted", pull)
	deleted.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	all := []*corev1.Pod{
		previous(podOf(d, "previous-1", pull)), previous(podOf(d, "previous-2", running)), podOf(d, "new-1", running),
		podOf(d, "new-2", pull), podOf(d, "new-3", pull), deleted,
	}
	found, _ := findProblems(d, all, now)
	controllertest.Equal(t, "Pod", "new-2", found.pod.Name)
	controllertest.Equal(t, "numbers", "2 of 3 new Pods, 2 ready",
		fmt.Sprintf("%d of %d %s, %d ready", found.count, found.among, found.which, found.ready))
	found, _ = findProblems(d, all[:3], now)
	controllertest.Equal(t, "numbers without a problem of a new Pod", "1 of 2 previous Pods, 2 ready",
		fmt.Sprintf("%d of %d %s, %d ready", found.count, found.among, found.which, found.ready))
	found, _ = findProblems(d, all[1:3], now)
	controllertest.Equal(t, "problems if there are none", nil, found)
}

// TestManyFailingPodsCostFewWrites checks that the message of an App changes only a few times while its 1,000 Pods fail
// one after the other.
func TestManyFailingPodsCostFewWrites(t *testing.T) {
	messages := map[string]bool{}
	for count := 1; count <= 1000; count++ {
		messages[roundedDown(count)] = true
	}
	if len(messages) > 11 {
		t.Errorf("1000 numbers became %d texts", len(messages))
	}
	controllertest.Equal(t, "1000 Pods", "512+", roundedDown(1000))
}

func TestPodsOfOthersBelongToNoApp(t *testing.T) {
	d := deploymentWith(example(), nil)
	d.Namespace, d.Name = "default", "web"
	for name, change := range map[string]func(*corev1.Pod){
		"a Pod without an owner":               func(p *corev1.Pod) { p.OwnerReferences = nil },
		"a Pod of a StatefulSet":               func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "StatefulSet" },
		"a Pod of a ReplicaSet of another App": func(p *corev1.Pod) { p.OwnerReferences[0].Name = "other-1" },
		"a Pod without the label of its App":   func(p *corev1.Pod) { p.Labels = nil },
	} {
		pod := podOf(d, "web-1-a", corev1.PodStatus{}).DeepCopy()
		if _, ok := appOf(pod); !ok {
			t.Fatal("a Pod of the App does not belong to it")
		}
		change(pod)
		if key, ok := appOf(pod); ok {
			t.Errorf("%s belongs to %s", name, key)
		}
	}
}
