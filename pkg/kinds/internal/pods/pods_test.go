package pods_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

func TestTrimKeepsFieldsThatKindsRead(t *testing.T) {
	whole := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Labels: map[string]string{
				"app.kubernetes.io/kept": "yes", "theirs": "long",
			}, Finalizers: []string{"theirs", "windlass.dev/command-tracking"},
			Annotations: map[string]string{
				"windlass.dev/kept": "yes", "cnat.programming-kubernetes.info/kept": "yes", "example.com/theirs": "long",
			},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1",
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady}, {Type: corev1.PodInitialized}, {
					Type: corev1.PodScheduled,
				}, {Type: corev1.DisruptionTarget},
			},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "app", Image: "image", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			},
		},
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Labels: map[string]string{"app.kubernetes.io/kept": "yes"}, Finalizers: []string{
				"windlass.dev/command-tracking",
			},
			Annotations: map[string]string{"windlass.dev/kept": "yes", "cnat.programming-kubernetes.info/kept": "yes"},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady}, {Type: corev1.PodScheduled}, {Type: corev1.DisruptionTarget},
			},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "app", Image: "image", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			},
		},
	}
	once, err := pods.Trim(whole)
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "trimmed", any(want), once)
	twice, err := pods.Trim(once)
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "trimmed twice", once, twice)
}

// TestTrimKeepsContainerThatAnnotationNames checks that a container that runs is kept, unlike a container of others.
func TestTrimKeepsContainerThatAnnotationNames(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{pods.ContainerAnnotation: "shop"}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "proxy", State: running}, {Name: "shop", State: running},
		}},
	}
	kept := trim(t, pod).Status.ContainerStatuses
	controllertest.Equal(t, "statuses", []corev1.ContainerStatus{{Name: "shop", State: running}}, kept)
}

func TestTrimKeepsNamesOfWindlassBesideManyOthers(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{"windlass.dev/app": "web"},
		Annotations: map[string]string{"windlass.dev/template-digest": "a"},
	}}
	for i := range 20 {
		pod.Labels[fmt.Sprintf("app.kubernetes.io/a%02d", i)] = ""
		pod.Annotations[fmt.Sprintf("cnat.programming-kubernetes.info/a%02d", i)] = ""
	}
	trimmed, err := pods.Trim(pod)
	if err != nil {
		t.Fatal(err)
	}
	kept := trimmed.(*corev1.Pod)
	controllertest.Equal(t, "number of labels", 16, len(kept.Labels))
	controllertest.Equal(t, "number of annotations", 16, len(kept.Annotations))
	controllertest.Equal(t, "label", "web", kept.Labels["windlass.dev/app"])
	controllertest.Equal(t, "annotation", "a", kept.Annotations["windlass.dev/template-digest"])
}

func TestTrimIgnoresOtherObjects(t *testing.T) {
	secret := &corev1.Secret{}
	if got, err := pods.Trim(secret); err != nil || got != any(secret) {
		t.Errorf("an object that is no Pod became %v, %v", got, err)
	}
}

func TestKindsShareOneInformer(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	one, err := pods.Watched(factory)
	if err != nil {
		t.Fatal(err)
	}
	two, err := pods.Watched(factory)
	if err != nil || one.Informer().GetIndexer() != two.Informer().GetIndexer() {
		t.Errorf("the second is another one: %v", err)
	}
}

func TestBlockedStart(t *testing.T) {
	for reason, want := range map[string]string{
		"ErrImagePull": "ImagePullBackOff", "ImagePullBackOff": "ImagePullBackOff",
		"CreateContainerConfigError": "CreateContainerConfigError",
		"ContainerCreating":          "", "CrashLoopBackOff": "",
	} {
		status := corev1.ContainerStatus{
			Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		}
		pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "sidecar"}, status}}}
		controllertest.Equal(t, reason, want, pods.BlockedStart(pods.StatusOf(pod, "c")))
		controllertest.Equal(t, "of another container", "", pods.BlockedStart(pods.StatusOf(pod, "d")))
	}
}

func TestRoundedDoesNotChangeItsArgument(t *testing.T) {
	given := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0.1000001")},
	}
	got := pods.Rounded(given)
	controllertest.Equal(t, "rounded", "101m", got.Requests.Cpu().String())
	controllertest.Equal(t, "given", "100000100n", given.Requests.Cpu().String())
}

func TestPullPolicyFollowsTag(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"web":                                  corev1.PullAlways,
		"web:latest":                           corev1.PullAlways,
		"web:1":                                corev1.PullIfNotPresent,
		"registry.example.com:5000/shop/web":   corev1.PullAlways,
		"registry.example.com:5000/shop/web:1": corev1.PullIfNotPresent,
		"web@sha256:0123":                      corev1.PullIfNotPresent,
		"web:latest@sha256:0123":               corev1.PullAlways,
	} {
		controllertest.Equal(t, "policy for "+image, want, pods.PullPolicy(image))
	}
}
