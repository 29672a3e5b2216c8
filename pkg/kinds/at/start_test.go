package at

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

var (
	getAt  = "get ats default/example"
	getPod = "get pods default/example-pod"
)

func TestAStart(t *testing.T) {
	foreign := func(whose string) string {
		return "the name is taken by Pod default/example-pod, which belongs to " + whose + "; delete or rename that Pod, or give this At another name"
	}
	const earlier = "Pod example-pod of an earlier At of this name is still being deleted."
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "example-pod", errors.New("exceeded quota"))
	const failure = `creating Pod default/example-pod: no answer`
	const relabelling = `labelling Pod default/example-pod again: pods "example-pod" is forbidden: exceeded quota`
	tell(t, map[string]story{
		"that this process has stored reads nothing": {
			at: example(running), begun: true, writes: []string{writePod}, status: isRunnow,
		},
		"that this process has stored a while ago is confirmed, as another may lead since": {
			at: example(running), now: fresh + 1, begun: true, gets: []string{getAt}, writes: []string{writePod}, status: isRunnow,
		},
		"that another process has stored is confirmed by one read": {
			at: example(running), gets: []string{getAt}, writes: []string{writePod}, status: isRunnow,
		},
		"of an At that has moved on is none": {
			at: example(running), onServer: func(at *v1.At) { newer(at); succeeded(at) }, gets: []string{getAt}, err: "the cache is behind",
			status: "Done, scheduled 12:00:00, started 12:00:00, completed 12:01:00, example-pod, exit 0",
		},
		"of an At that is gone is none": {
			at: example(running), onServer: func(at *v1.At) { at.Name = "another" }, gets: []string{getAt}, err: controller.AwaitDeletion().Error(), status: "gone",
		},
		"that cannot be confirmed is none yet": {
			at: example(running), refuse: map[string]error{"get ats": errNoAnswer}, err: "reading At default/example before its Pod is created: no answer",
			writes: []string{status}, status: isRunnow, events: []string{"Warning ReconcileError default/example: reading At default/example before its Pod is created: no answer"},
			conditions: []string{
				"Degraded=False AsExpected", "Progressing=True Running: " + runs,
				"Ready=False ReconcileError: reading At default/example before its Pod is created: no answer",
			}, next: []string{writePod, status},
		},
		"that fails is shown and tried again": {
			at: example(running), begun: true, refuse: map[string]error{"create pods": errNoAnswer}, err: failure,
			writes: []string{writePod, status}, status: isRunnow, events: []string{"Warning ReconcileError default/example: " + failure},
			conditions: []string{"Degraded=False AsExpected", "Progressing=True Running: " + runs, "Ready=False ReconcileError: " + failure},
			next:       []string{writePod, status},
		},
		"whose Pod's name nobody's Pod has leaves that alone": {
			at: example(running), begun: true, live: list(pod(unowned, unlabelled)), gets: []string{getPod}, err: foreign("nobody"),
			writes: []string{writePod, status}, events: []string{"Warning NameConflict default/example: " + foreign("nobody")},
			status: isRunnow, conditions: stuck("NameConflict", foreign("nobody")), next: []string{writePod},
		},
		"whose Pod's name the Pod of a Job has leaves that alone": {
			at: example(running), cached: list(pod(owner("x", "Job", "theirs"))), err: foreign("Job theirs"),
			writes: []string{status}, events: []string{"Warning NameConflict default/example: " + foreign("Job theirs")},
			status: isRunnow, conditions: stuck("NameConflict", foreign("Job theirs")),
		},
		"whose Pod's name a Pod of an earlier At has waits": {
			at: example(running), begun: true, live: list(pod(owner("x", "At", "example"), unlabelled)), gets: []string{getPod}, err: earlier,
			writes: []string{writePod, status}, events: []string{"Normal Terminating default/example: " + earlier}, status: isRunnow,
			conditions: []string{"Degraded=False AsExpected", "Progressing=True Running: " + runs, "Ready=False Terminating: " + earlier},
			next:       []string{writePod},
		},
		"whose Pod the cache does not have yet goes on with it": {
			at: example(running), live: list(pod()), gets: []string{getAt, getPod}, writes: []string{writePod}, after: 30 * time.Second, status: isRunnow,
		},
		"whose Pod has lost its label goes on with it": {
			at: example(running), live: list(pod(unlabelled)), gets: []string{getAt, getPod}, writes: []string{writePod, patchPod}, after: 30 * time.Second,
			status: isRunnow,
		},
		"whose Pod has lost its label, which is refused, says so": {
			at: example(running), live: list(pod(unlabelled)), refuse: map[string]error{"patch pods": forbidden}, gets: []string{getAt, getPod}, err: relabelling, after: 30 * time.Second,
			writes: []string{writePod, patchPod, status}, status: isRunnow, events: []string{"Warning Forbidden default/example: " + relabelling},
			conditions: []string{"Degraded=False AsExpected", "Progressing=True Running: " + runs, "Ready=False Forbidden: " + relabelling},
			next:       []string{writePod, patchPod, status},
		},
		"whose Pod has lost its label sees it end": {
			at: example(running), now: hour, live: list(pod(unlabelled, ended(0))), gets: []string{getAt, getPod}, writes: []string{writePod, status},
			status: "Done, scheduled 12:00:00, started 12:00:00, completed 12:01:00, example-pod, exit 0",
			events: []string{"Normal CommandSucceeded default/example: " + ended0}, conditions: complete(ended0),
		},
		"that somebody forged waits for the schedule": {
			at: example(running), now: -hour, after: hour, status: isRunnow,
		},
		"that somebody forged with nothing else in the status waits, too": {
			at: example(func(at *v1.At) { at.Status.Phase = v1.AtRunning }), now: -hour, after: hour,
			writes: []string{status}, status: "Running", conditions: []string{"Degraded=False AsExpected"},
		},
		"whose schedule has been edited since is made all the same": {
			at: example(running, schedule("2099-01-01T00:00:00Z")), begun: true, writes: []string{writePod}, status: isRunnow,
		},
		"whose schedule cannot be read any more is made all the same": {
			at:   example(schedule("tomorrow"), func(at *v1.At) { running(at); at.Status.ScheduledTime = nil }),
			gets: []string{getAt}, writes: []string{writePod}, status: "Running, started 12:00:00, example-pod",
		},
		"that v1alpha1 tells of, which has no times, is now": {
			at: example(func(at *v1.At) { at.Status.Phase = v1.AtRunning }), now: hour, gets: []string{getAt}, writes: []string{writePod, status},
			status: "Running, started 13:00:00, example-pod", events: []string{isRunning}, conditions: notReady("Running", runs),
		},
		"comes back for its deadline": {
			at: example(running, deadline(60)), now: 20 * time.Second, begun: true, after: 40 * time.Second, writes: []string{writePod}, status: isRunnow,
		},
		"past its deadline is none": {
			at: example(running, deadline(60)), now: time.Minute, writes: []string{status},
			status: "Done, scheduled 12:00:00, started 12:00:00, completed 12:01:00, example-pod", conditions: failedFor("DeadlineExceeded", tooLong),
			events: []string{"Warning DeadlineExceeded default/example: " + tooLong},
		},
		"after a failure is confirmed, whoever stored it": {
			at: example(tries(2), retrying(1)), now: hour, begun: true, gets: []string{getAt}, writes: []string{writePod},
			status: isRunnow + ", failed 1, exit 3",
		},
	})
}

const tooLong = "The command did not end within 60 s."

func TestThePodIsWhatTheSpecSays(t *testing.T) {
	env := []corev1.EnvVar{{Name: "A", Value: "a"}}
	envFrom := []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	resources := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}
	secrets := []corev1.LocalObjectReference{{Name: "registry"}}
	long := strings.Repeat("long-", 49) + "name" // 249 characters, the most that are allowed
	want := func(name, instance string, spec corev1.PodSpec) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name + "-pod",
				Labels: map[string]string{
					"app.kubernetes.io/name": "at", "app.kubernetes.io/instance": instance, "app.kubernetes.io/managed-by": "windlass",
				},
				Annotations: map[string]string{"cnat.programming-kubernetes.info/attempt": "0"},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "cnat.programming-kubernetes.info/v1", Kind: "At", Name: name, UID: "at-uid",
					Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
				}},
			},
			Spec: spec,
		}
	}
	plain := corev1.PodSpec{
		RestartPolicy: "Never", AutomountServiceAccountToken: ptr.To(false),
		Containers: []corev1.Container{{Name: "command", Image: "busybox:1.37", Command: []string{"echo", "Hello"}}},
	}
	for name, test := range map[string]struct {
		change func(*v1.At)
		want   *corev1.Pod
	}{
		"with no more than a command": {func(*v1.At) {}, want("example", "example", plain)},
		"with all that there is": {
			func(at *v1.At) {
				at.Spec.Image, at.Spec.Args, at.Spec.Env, at.Spec.EnvFrom = "tool:1", []string{"-x"}, env, envFrom
				at.Spec.Resources, at.Spec.ImagePullSecrets, at.Spec.ServiceAccountName = resources, secrets, "runner"
				at.Spec.ActiveDeadlineSeconds, at.Spec.BackoffLimit, at.Spec.TTLSecondsAfterFinished = ptr.To[int64](3600), ptr.To[int32](2), ptr.To[int32](9)
			},
			want("example", "example", corev1.PodSpec{
				RestartPolicy: "Never", ServiceAccountName: "runner", ImagePullSecrets: secrets,
				Containers: []corev1.Container{{
					Name: "command", Image: "tool:1", Command: []string{"echo", "Hello"}, Args: []string{"-x"}, Env: env, EnvFrom: envFrom, Resources: resources,
				}},
			}),
		},
		"with a name that is too long for a label": {
			func(at *v1.At) { at.Name = long }, want(long, long[:54]+"-"+"ac71d80a", plain),
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Equal(t, "Pod", test.want, desiredPod(example(test.change), DefaultImage))
		})
	}
}

func TestAnAttemptThatCannotBeReadIsTheFirst(t *testing.T) {
	for written, want := range map[string]int32{"0": 0, "7": 7, "": 0, "-1": 0, "many": 0, "99999999999": 0} {
		controllertest.Equal(t, "attempt "+written, want, attemptOf(pod(attempt(written))))
	}
}
