package pods_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func ended(code int32, reason, message string) corev1.ContainerState {
	return corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message},
	}
}

func runningSince(start time.Time) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(start)}}
}

func TestBlockedNamesCause(t *testing.T) {
	for name, c := range map[string]struct{ reason, message, want string }{
		"the image does not exist, between two attempts": {
			"ImagePullBackOff", `Back-off pulling image "web:2": ErrImagePull: docker.io/library/web:2: not found`,
			"the image web:2 was not found in its registry",
		},
		"the registry needs a login": {
			"ErrImagePull", "pull access denied, repository does not exist or may require authorization",
			"the registry does not let the node pull the image web:2; check its name, and imagePullSecrets",
		},
		"a word in the name of an image is no cause": {
			"ImagePullBackOff", `Back-off pulling image "web:2"`, "the image web:2 cannot be pulled",
		},
		"the registry has no address": {
			"ErrImagePull", "dial tcp: lookup registry.example.com: no such host",
			"the node cannot reach the registry of the image web:2",
		},
		"the certificate is not trusted": {
			"ErrImagePull", "tls: failed to verify certificate: x509: certificate signed by unknown authority",
			"the node does not trust the certificate of the registry of the image web:2",
		},
		"the name of the image is invalid": {
			"InvalidImageName", "couldn't parse image name", `the name of the image "web:2" is invalid`,
		},
		"the image runs as root": {
			"CreateContainerConfigError",
			`container has runAsNonRoot and image will run as root (pod: "web-1_shop(0123)", container: app)`,
			"container has runAsNonRoot and image will run as root",
		},
		"a Secret is missing": {"CreateContainerConfigError", `secret "token" not found`, `secret "token" not found`},
		"a container cannot be created": {
			"CreateContainerError", "context deadline exceeded, container 4711", "the container cannot be created",
		},
		"a message has several lines": {"CreateContainerConfigError", "a\nb\x1b[31m\xff", "a b [31m"},
		"a message is very long": {
			"CreateContainerConfigError", strings.Repeat("a", 999), strings.Repeat("a", 253) + "...",
		},
		"a message is only about the Pod": {
			"CreateContainerConfigError", ` (pod: "web-1_shop(0123)")`, "the container cannot be created",
		},
		"the container waits for its volume": {"ContainerCreating", "", ""},
		"the container crashes":              {"CrashLoopBackOff", "back-off 5m0s restarting failed container", ""},
	} {
		t.Run(name, func(t *testing.T) {
			found := pods.Blocked(corev1.ContainerStatus{Image: "web:2", State: waiting(c.reason, c.message)})
			if c.want == "" {
				controllertest.Equal(t, "problem", nil, found)
				return
			}
			controllertest.Equal(t, "message", c.want, found.Message)
		})
	}
}

func TestCrashing(t *testing.T) {
	crash := func(message string) *pods.Problem {
		return &pods.Problem{Reason: "CrashLoopBackOff", Message: "the container ended with exit code 3", Words: message}
	}
	for name, c := range map[string]struct {
		status corev1.ContainerStatus
		want   *pods.Problem
		again  time.Duration
	}{
		"a container that never ended": {corev1.ContainerStatus{State: runningSince(now)}, nil, 0},
		"a container that is restarted after its first crash": {
			corev1.ContainerStatus{
				State: runningSince(now), LastTerminationState: ended(3, "Error", "x"), RestartCount: 1,
			}, nil, 0,
		},
		"a container that waits after its second crash": {
			corev1.ContainerStatus{
				State: waiting("CrashLoopBackOff", ""), LastTerminationState: ended(3, "Error", "a\nno database\n\n"),
				RestartCount: 1,
			}, crash("The last line of its log: no database"), 0,
		},
		"a container that has just crashed for the third time": {
			corev1.ContainerStatus{
				State: ended(3, "Error", "third"), LastTerminationState: ended(4, "Error", "second"), RestartCount: 2,
			}, crash("The last line of its log: third"), 0,
		},
		"a container that runs for a moment between crashes": {
			corev1.ContainerStatus{
				State: runningSince(now.Add(-10 * time.Second)), LastTerminationState: ended(3, "Error", ""), RestartCount: 2,
			}, crash(""), 20 * time.Second,
		},
		"a container that has run for a while": {
			corev1.ContainerStatus{
				State: runningSince(now.Add(-30 * time.Second)), LastTerminationState: ended(3, "Error", ""), RestartCount: 9,
			}, nil, 0,
		},
		"a container that exceeds its memory limit": {
			corev1.ContainerStatus{
				State: waiting("CrashLoopBackOff", ""), LastTerminationState: ended(137, "OOMKilled", ""), RestartCount: 5,
			},
			&pods.Problem{Reason: "CrashLoopBackOff", Message: "the container exceeded its memory limit and was killed"}, 0,
		},
		"a container without its command": {
			corev1.ContainerStatus{
				State:                waiting("CrashLoopBackOff", ""),
				LastTerminationState: ended(128, "StartError", `exec: "nope": executable file not found`), RestartCount: 5,
			},
			&pods.Problem{
				Reason: "CrashLoopBackOff", Message: `the container does not start: exec: "nope": executable file not found`,
			}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			found, again := pods.Crashing(c.status, now)
			controllertest.Equal(t, "problem", c.want, found)
			controllertest.Equal(t, "time until it can change", c.again, again)
		})
	}
}

func TestUnschedulablePodIsProblemAfterAMinute(t *testing.T) {
	pod := func(since time.Duration) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
				Message: "0/3 nodes are available", LastTransitionTime: metav1.NewTime(now.Add(-since)),
			},
		}}}
	}
	found, again := pods.Unschedulable(pod(20*time.Second), now)
	controllertest.Equal(t, "problem after 20 s", nil, found)
	controllertest.Equal(t, "time until it can change", 40*time.Second, again)
	found, again = pods.Unschedulable(pod(time.Minute), now)
	controllertest.Equal(t, "problem after a minute", &pods.Problem{
		Reason: "Unschedulable", Message: "the scheduler found no node for the Pod",
		Words: "The scheduler says: 0/3 nodes are available.",
	}, found)
	controllertest.Equal(t, "time until it can change", 0, again)
}

func TestTrimKeepsEndOfLongMessages(t *testing.T) {
	trimmed, err := pods.Trim(&corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		State:                waiting("x", strings.Repeat("a", 9999)+"end"),
		LastTerminationState: ended(1, "Error", strings.Repeat("ä", 9999)+"end"),
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	status := trimmed.(*corev1.Pod).Status.ContainerStatuses[0]
	for _, message := range []string{status.State.Waiting.Message, status.LastTerminationState.Terminated.Message} {
		if len(message) > 1024 || !strings.HasSuffix(message, "end") {
			t.Errorf("a message of %d bytes was kept: ...%s", len(message), message[len(message)-9:])
		}
	}
}

func TestTrimKeepsNoContainerStatesOfHealthyAppPods(t *testing.T) {
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-1", OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1", Controller: &yes}},
		},
		Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", ImageID: "web@sha256:0123", State: runningSince(now)}},
		},
	}
	trim := func() corev1.ContainerStatus {
		trimmed, err := pods.Trim(pod)
		if err != nil {
			t.Fatal(err)
		}
		return trimmed.(*corev1.Pod).Status.ContainerStatuses[0]
	}
	controllertest.Equal(t, "container of a healthy Pod", corev1.ContainerStatus{
		Name: "app", ImageID: "web@sha256:0123",
	}, trim())
	pod.Status.ContainerStatuses[0].LastTerminationState = ended(1, "Error", "")
	controllertest.Equal(t, "container of a Pod that crashed", pod.Status.ContainerStatuses[0], trim())
}
