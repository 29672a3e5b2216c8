package kindtest

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Injected is a Pod that does not run because of a container that an admission webhook has added.
type Injected struct {
	Status corev1.PodStatus
	// Reason, Problem and Words are the problem that package pods must find.
	Reason, Problem, Words string
}

const injectedImage = "mesh/proxy:1"

// maker makes the statuses of Pods with injected containers.
type maker struct{ now time.Time }

// waits returns the status of a container that waits for a reason.
func (maker) waits(name, image, reason, message string) corev1.ContainerStatus {
	waiting := &corev1.ContainerStateWaiting{Reason: reason, Message: message}
	return corev1.ContainerStatus{Name: name, Image: image, State: corev1.ContainerState{Waiting: waiting}}
}

// runs returns the status of a container that has been running for some time.
func (m maker) runs(name string, since time.Duration) corev1.ContainerStatus {
	running := &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(m.now.Add(-since))}
	return corev1.ContainerStatus{Name: name, Image: injectedImage, State: corev1.ContainerState{Running: running}}
}

// ended returns the state of a container that has ended.
func (m maker) ended(code int32, message string) corev1.ContainerState {
	ended := &corev1.ContainerStateTerminated{ExitCode: code, Message: message, FinishedAt: metav1.NewTime(m.now)}
	return corev1.ContainerState{Terminated: ended}
}

// crashes returns the status of a container that crashes repeatedly.
func (m maker) crashes(name string) corev1.ContainerStatus {
	status := m.waits(name, injectedImage, "CrashLoopBackOff", "back-off 5m0s restarting failed container")
	status.LastTerminationState, status.RestartCount = m.ended(1, "iptables\nno permission\n"), 4
	return status
}

// done returns the status of an init container that has succeeded in its fourth attempt.
func (m maker) done() corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: "setup", Image: injectedImage, State: m.ended(0, ""), LastTerminationState: m.ended(1, ""), RestartCount: 3,
	}
}

// many returns the statuses of a thousand containers with the longest names, images and messages.
func (m maker) many() (blocked, running []corev1.ContainerStatus) {
	long, huge := strings.Repeat("n", 59), strings.Repeat("i", 1<<20)
	for i := range 1000 {
		name := fmt.Sprintf("%04d%s", i, long)
		status := m.waits(name, huge, "CreateContainerConfigError", huge)
		status.LastTerminationState, status.ImageID = m.ended(1, huge), huge
		blocked, running = append(blocked, status), append(running, m.runs(name, time.Hour))
	}
	return blocked, running
}

// problemOf returns the message about an injected container. clause says what is wrong.
func problemOf(name, image, clause string) string {
	return "container " + name + " with image " + image + ", which Windlass does not generate, " + clause +
		"; if the podTemplate of the spec adds the container, correct it there; otherwise ask whoever adds it to Pods, " +
		"for example the administrator of a service mesh, to correct it or to exclude this Pod"
}

// InjectedPods returns Pods with injected containers. The keys describe the Pods. own is the container that the kind
// creates, and now is the time of the test.
func InjectedPods(own string, now time.Time) map[string]Injected {
	const (
		log     = "The last line of its log: no permission"
		crashed = "does not run: the container ended with exit code 1"
		missing = "does not run: the image " + injectedImage + " was not found in its registry"
		denied  = "does not run: the registry does not let the node pull the image " + injectedImage +
			"; check its name, and imagePullSecrets"
		endless = "has run for more than 1m0s, and the other containers of the Pod wait for it"
		pull    = "ErrImagePull"
		waiting = "PodInitializing"
	)
	type statuses = []corev1.ContainerStatus
	m := maker{now}
	pod := func(init statuses, others ...corev1.ContainerStatus) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: init, ContainerStatuses: others}
	}
	initializing, creating := m.waits(own, "", waiting, ""), m.waits(own, "", "ContainerCreating", "")
	next := m.waits("next", injectedImage, waiting, "")
	mesh := func(clause string) string { return problemOf("mesh", injectedImage, clause) }
	blocked, running := m.many()
	cut := strings.Repeat("i", 253) + "..."
	return map[string]Injected{
		"an injected init container that crashes": {
			pod(statuses{m.done(), m.crashes("mesh")}, initializing), "CrashLoopBackOff", mesh(crashed), log,
		},
		"an injected init container whose image cannot be pulled": {
			pod(statuses{m.waits("mesh", injectedImage, pull, "not found"), next}, initializing),
			"ImagePullBackOff", mesh(missing), "",
		},
		"an injected init container with an invalid configuration": {
			pod(statuses{m.waits("mesh", injectedImage, "CreateContainerConfigError", `secret "mesh" not found`)}, initializing),
			"CreateContainerConfigError", mesh(`does not run: secret "mesh" not found`), "",
		},
		"an injected init container that does not end": {
			pod(statuses{m.done(), m.runs("mesh", time.Minute), next}, initializing), waiting, mesh(endless), "",
		},
		"an injected native sidecar that crashes": {
			pod(statuses{m.done(), m.runs("other", time.Hour), m.crashes("mesh")}, initializing),
			"CrashLoopBackOff", mesh(crashed), log,
		},
		"an injected container whose image cannot be pulled": {
			pod(nil, creating, m.waits("mesh", injectedImage, "ImagePullBackOff", "denied")),
			"ImagePullBackOff", mesh(denied), "",
		},
		"an injected container that crashes": {
			pod(nil, creating, m.crashes("mesh")), "CrashLoopBackOff", mesh(crashed), log,
		},
		"a thousand injected containers": {
			pod(nil, append(blocked, creating)...), "CreateContainerConfigError",
			problemOf(blocked[0].Name, cut, "does not run: "+cut), "",
		},
		"a thousand injected native sidecars that run, and an init container whose image cannot be pulled": {
			pod(append(running, m.waits("mesh", injectedImage, pull, "not found")), initializing),
			"ImagePullBackOff", mesh(missing), "",
		},
	}
}
