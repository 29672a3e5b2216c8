package pods_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

func trim(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	trimmed, err := pods.Trim(pod)
	if err != nil {
		t.Fatal(err)
	}
	return trimmed.(*corev1.Pod)
}

func TestProblemOfInjectedContainerIsTheSameInCache(t *testing.T) {
	owner := []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1", Controller: new(true)}}
	for name, c := range kindtest.InjectedPods("app", now) {
		t.Run(name, func(t *testing.T) {
			whole := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", OwnerReferences: owner}, Status: c.Status}
			trimmed := trim(t, whole)
			for _, pod := range []*corev1.Pod{whole, trimmed} {
				controllertest.Equal(t, "has a symptom", true, pods.HasSymptom(pod))
				found, again := pods.ProblemOf(pod, "app", now)
				if found == nil {
					t.Fatal("no problem was found")
				}
				controllertest.Equal(t, "reason", c.Reason, found.Reason)
				controllertest.Equal(t, "message", c.Problem, found.Message)
				controllertest.Equal(t, "words", c.Words, found.Words)
				controllertest.Equal(t, "time until it can change", 0, again)
			}
			controllertest.Equal(t, "trimmed twice", trimmed, trim(t, trimmed))
			if size := trimmed.Size(); size > 100<<10 {
				t.Errorf("the cached Pod has %d bytes", size)
			}
		})
	}
}

func TestInitContainerMayRunForAMinute(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "mesh-init", State: runningSince(now.Add(-20 * time.Second))}},
		ContainerStatuses:     []corev1.ContainerStatus{{Name: "app", State: waiting("PodInitializing", "")}},
	}}
	found, again := pods.ProblemOf(trim(t, pod), "app", now)
	controllertest.Equal(t, "problem after 20 s", nil, found)
	controllertest.Equal(t, "time until it can change", 40*time.Second, again)
}

func TestNativeSidecarOfRunningPodIsNoProblem(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "mesh-proxy", State: runningSince(now.Add(-time.Hour))}},
		ContainerStatuses:     []corev1.ContainerStatus{{Name: "app", State: runningSince(now.Add(-time.Hour))}},
	}}
	controllertest.Equal(t, "has a symptom", false, pods.HasSymptom(pod))
	found, again := pods.ProblemOf(pod, "app", now)
	controllertest.Equal(t, "problem", nil, found)
	controllertest.Equal(t, "time until it can change", 0, again)
	controllertest.Equal(t, "cached init containers", nil, trim(t, pod).Status.InitContainerStatuses)
}

// TestNativeSidecarIsNoProblemWhileImageIsPulled has Pods whose own container waits only for its image.
func TestNativeSidecarIsNoProblemWhileImageIsPulled(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	for name, sidecar := range map[string]corev1.ContainerStatus{
		"a sidecar that is ready":                  {Ready: true},
		"a sidecar that has started":               {Started: new(true)},
		"a sidecar that is ready after it crashed": {Ready: true, LastTerminationState: ended(1, "Error", "")},
	} {
		t.Run(name, func(t *testing.T) {
			sidecar.Name, sidecar.State = "mesh-proxy", runningSince(now.Add(-time.Hour))
			whole := &corev1.Pod{
				Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "mesh-proxy", RestartPolicy: &always}}},
				Status: corev1.PodStatus{
					InitContainerStatuses: []corev1.ContainerStatus{sidecar},
					ContainerStatuses:     []corev1.ContainerStatus{{Name: "app", State: waiting("PodInitializing", "")}},
				},
			}
			for _, pod := range []*corev1.Pod{whole, trim(t, whole)} {
				found, again := pods.ProblemOf(pod, "app", now)
				controllertest.Equal(t, "problem", nil, found)
				controllertest.Equal(t, "time until it can change", 0, again)
			}
		})
	}
}
