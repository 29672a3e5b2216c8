package at

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

func TestReconcileStartsPod(t *testing.T) {
	const (
		earlier     = "Waiting for the deletion of Pod example-pod, which belongs to a previous At of this name."
		readError   = "reading At default/example before its Pod is created: no response"
		createError = "creating Pod default/example-pod: no response"
		patchError  = `restoring the labels of Pod default/example-pod: pods "example-pod" is forbidden: exceeded quota`
	)
	conflict := func(owner string) string {
		return "Pod default/example-pod already exists and belongs to " + owner + ". Create this At under another name. If " +
			"nobody needs the Pod, delete the Pod instead."
	}
	lookLater := controller.Result{RequeueAfter: 30 * time.Second}
	runCases(t, map[string]reconcileCase{
		"the process that stored the start reads nothing": {
			at: example(running), startedHere: true, writes: []string{createPod},
		},
		"a start that this process stored a while ago is confirmed by one read": {
			at: example(running), now: fresh + 1, startedHere: true, reads: []string{getAt}, writes: []string{createPod},
		},
		"a start that another process stored is confirmed by one read": {
			at: example(running), reads: []string{getAt}, writes: []string{createPod},
		},
		"no Pod is created if the live At has finished": {
			at: example(running), unobserved: func(f fixture) { f.Change(succeeded) }, reads: []string{
				getAt,
			}, err: "the cache is outdated",
		},
		"no Pod is created for a deleted At": {
			at: example(running), unobserved: func(f fixture) { f.Remove(f.Object()) }, reads: []string{
				getAt,
			}, err: controller.ErrDeletionNotObserved.Error(),
		},
		"no Pod is created until the start is confirmed": {
			at: example(running), fail: map[string]error{"get ats": errNoResponse}, err: readError, reads: []string{getAt},
			writes: []string{updateStatus}, events: []string{"Warning ReconcileError default/example: " + readError},
			conditions: erroredConditions("Running", runningMessage, readError), next: []string{createPod, updateStatus},
		},
		"an error of the create is reported, and the create is retried": {
			at: example(running), startedHere: true, fail: map[string]error{"create pods": errNoResponse}, err: createError,
			writes: []string{createPod, updateStatus}, events: []string{
				"Warning ReconcileError default/example: " + createError,
			},
			conditions: erroredConditions("Running", runningMessage, createError), next: []string{createPod, updateStatus},
		},
		"a Pod without an owner causes a name conflict": {
			at: example(running), pod: pod(unowned, unlabelled), startedHere: true, reads: []string{getPod, getAt},
			err:    conflict("nobody"),
			writes: []string{createPod, patchPod, updateStatus}, events: []string{
				"Warning NameConflict default/example: " + conflict("nobody"),
			},
			conditions: stalledConditions("NameConflict", conflict("nobody")), next: []string{createPod},
		},
		"the deletion of a Pod of an earlier At is awaited": {
			at: example(running), pod: pod(ownedByOther("At", "example"), unlabelled), startedHere: true,
			reads: []string{getPod, getAt}, err: earlier,
			writes: []string{createPod, patchPod, updateStatus}, events: []string{
				"Normal Terminating default/example: " + earlier,
			},
			conditions: []string{
				"Degraded=False AsExpected", "Progressing=True Running: " + runningMessage, "Ready=False Terminating: " + earlier,
			},
			next: []string{createPod},
		},
		"a Pod that the cache lacks is used": {
			at: example(running), unobserved: func(f fixture) { f.Store(pod()) }, reads: []string{
				getAt, getPod,
			}, writes: []string{createPod}, result: lookLater,
		},
		"a Pod without its label gets it again": {
			at: example(running), pod: pod(unlabelled), reads: []string{getAt, getPod}, writes: []string{
				createPod, patchPod,
			}, result: lookLater,
		},
		"an error of the patch of the labels is reported": {
			at: example(running), pod: pod(unlabelled), fail: map[string]error{
				"patch pods": forbidden("exceeded quota"),
			}, reads: []string{getAt, getPod},
			err: patchError, writes: []string{createPod, patchPod, updateStatus},
			events: []string{"Warning Forbidden default/example: " + patchError},
			conditions: []string{
				"Degraded=False AsExpected", "Progressing=True Running: " + runningMessage, "Ready=False Forbidden: " + patchError,
			},
			next: []string{createPod, patchPod, updateStatus},
		},
		"a Pod without its label that succeeded completes the At": {
			at: example(running), now: time.Hour, pod: pod(unlabelled, exited(0)), result: controller.Continue(),
			reads:  []string{getAt, getPod},
			writes: []string{createPod, patchPod, updateStatus}, events: []string{
				succeededEvent,
			}, status: doneStatus(exitCode(0)), conditions: completeConditions(exit0Message),
		},
		"a forged phase alone does not start the Pod before the scheduled time": {
			at: example(withPhase(v1.AtRunning)), now: -time.Hour, result: checkClock, writes: []string{updateStatus},
			status: &v1.AtStatus{ObservedGeneration: 1, Phase: v1.AtRunning}, conditions: []string{"Degraded=False AsExpected"},
		},
		"an invalid schedule does not delay a stored start": {
			at:    example(withSchedule("tomorrow"), func(at *v1.At) { running(at); at.Status.ScheduledTime = nil }),
			reads: []string{getAt}, writes: []string{createPod},
		},
		"an At of v1alpha1 without a start time gets the current time": {
			at: example(withPhase(v1.AtRunning)), now: time.Hour, reads: []string{getAt}, writes: []string{
				createPod, updateStatus,
			}, events: []string{runningEvent},
			status:     runningStatus(neverScheduled, startedAt(noon.Add(time.Hour))),
			conditions: progressingConditions("Running", runningMessage),
		},
		"the next reconcile starts at the active deadline": {
			at: example(running, withActiveDeadline(60)), now: 20 * time.Second, startedHere: true,
			result: controller.Result{RequeueAfter: 40 * time.Second},
			writes: []string{createPod},
		},
		"no Pod is created past the active deadline": {
			at: example(running, withActiveDeadline(60)), now: time.Minute, result: controller.Continue(),
			reads: []string{getPod}, writes: []string{updateStatus},
			events: []string{"Warning DeadlineExceeded default/example: " + activeDeadlineMessage}, status: doneStatus(),
			conditions: failedConditions("DeadlineExceeded", activeDeadlineMessage),
		},
		"a Pod that the cache lacks decides past the active deadline": {
			at: example(running, withActiveDeadline(60)), now: time.Hour, unobserved: func(f fixture) {
				f.Store(pod(exited(0)))
			}, result: controller.Continue(),
			reads: []string{getPod}, writes: []string{updateStatus}, events: []string{
				succeededEvent,
			}, status: doneStatus(exitCode(0)), conditions: completeConditions(exit0Message),
			next: []string{patchPod},
		},
		"the Pod of an earlier At is released before the scheduled time": {
			at: example(pending), now: -time.Hour, pod: pod(ownedByOther("At", "example"), terminating),
			reads: []string{getAt}, writes: []string{patchPod}, result: checkClock,
		},
		"a retry is always confirmed by one read": {
			at: example(withBackoffLimit(1), retrying(1)), now: time.Hour, startedHere: true, reads: []string{getAt},
			writes: []string{createPod},
		},
	})
}

func TestDesiredPod(t *testing.T) {
	env := []corev1.EnvVar{{Name: "A", Value: "a"}}
	envFrom := []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
	}
	resources := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}
	secrets := []corev1.LocalObjectReference{{Name: "registry"}}
	long := strings.Repeat("long-", 49) + "name" // 249 characters, the maximum
	want := func(name, instance string, spec corev1.PodSpec) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name + "-pod",
				Labels: map[string]string{
					"app.kubernetes.io/name": "at", "app.kubernetes.io/instance": instance, "app.kubernetes.io/managed-by": "windlass",
				},
				Annotations: map[string]string{"cnat.programming-kubernetes.info/attempt": "0"},
				Finalizers:  []string{"windlass.dev/command-tracking"},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "cnat.programming-kubernetes.info/v1", Kind: "At", Name: name, UID: "at-uid",
					Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
				}},
			},
			Spec: spec,
		}
	}
	plain := corev1.PodSpec{
		RestartPolicy: "Never", AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
		Containers: []corev1.Container{
			{
				Name: "command", Image: "busybox:1.37", Command: []string{"echo", "Hello"},
				TerminationMessagePolicy: "FallbackToLogsOnError",
			},
		},
	}
	for name, test := range map[string]struct {
		change func(*v1.At)
		want   *corev1.Pod
	}{
		"an At that has only a command": {func(*v1.At) {}, want("example", "example", plain)},
		"an At that has all fields": {
			func(at *v1.At) {
				at.Spec.Image, at.Spec.Args, at.Spec.Env, at.Spec.EnvFrom = "tool:1", []string{"-x"}, env, envFrom
				at.Spec.Resources, at.Spec.ImagePullSecrets, at.Spec.ServiceAccountName = resources, secrets, "runner"
				at.Spec.ActiveDeadlineSeconds = ptr.To[int64](3600)
				at.Spec.BackoffLimit = ptr.To[int32](2)
				at.Spec.TTLSecondsAfterFinished = ptr.To[int32](9)
			},
			want("example", "example", corev1.PodSpec{
				RestartPolicy: "Never", ServiceAccountName: "runner", ImagePullSecrets: secrets,
				EnableServiceLinks: ptr.To(false),
				Containers: []corev1.Container{{
					Name: "command", Image: "tool:1", Command: []string{"echo", "Hello"}, Args: []string{
						"-x",
					}, Env: env, EnvFrom: envFrom, Resources: resources, TerminationMessagePolicy: "FallbackToLogsOnError",
				}},
			}),
		},
		"an At that is a component of a Platform": {
			func(at *v1.At) {
				kindtest.MakeComponent(at, "shop", "migrate")
				at.Labels["team"] = "orders"
			},
			func() *corev1.Pod {
				pod := want("example", "example", plain)
				pod.Labels["app.kubernetes.io/part-of"], pod.Labels["app.kubernetes.io/component"] = "shop", "migrate"
				return pod
			}(),
		},
		"an At with labels that a Platform did not set": {
			func(at *v1.At) {
				at.Labels = map[string]string{"app.kubernetes.io/part-of": "storefront", "app.kubernetes.io/component": "migrate"}
			}, want("example", "example", plain),
		},
		"an At whose name is too long for a label": {
			func(at *v1.At) { at.Name = long }, want(long, long[:54]+"-"+"ac71d80a", plain),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := desiredPod(example(test.change), DefaultImage)
			controllertest.ErrorContains(t, "", err)
			controllertest.Equal(t, "Pod", test.want, got)
		})
	}
}

func TestPodHasNoLabelOfAt(t *testing.T) {
	at := example()
	kindtest.Track(at)
	f := newFixture(t, at)
	f.settle()
	f.onlyPod() // fails the test if there is none
	controllertest.Equal(t, "labels and annotations of the At on other objects", nil, f.Tracked())
}

func TestAttemptOfDefaultsToZero(t *testing.T) {
	for annotation, want := range map[string]int32{"0": 0, "7": 7, "": 0, "-1": 0, "many": 0, "99999999999": 0} {
		controllertest.Equal(t, "attempt "+annotation, want, attemptOf(pod(withAttempt(annotation))))
	}
}
