//go:build integration

package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

const trackingFinalizer = "windlass.dev/command-tracking"

// startEndless creates an At whose command does not end, and returns its Pod once the Pod runs.
func startEndless(t *testing.T, p *framework.Installation, namespace, name string) *corev1.Pod {
	t.Helper()
	p.Create(t, namespace, name, "sleep infinity", nil)
	return runningPod(t, p, namespace, name+"-pod")
}

// runningPod waits until a Pod runs, and returns the Pod. It fails the test if the Pod lacks the finalizer.
func runningPod(t *testing.T, p *framework.Installation, namespace, name string) (pod *corev1.Pod) {
	t.Helper()
	framework.Eventually(t, "Pod "+name+" to run", func(ctx context.Context) (_ bool, err error) {
		pod, err = p.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning, framework.IgnoreNotFound(err)
	})
	if !slices.Contains(pod.Finalizers, trackingFinalizer) {
		t.Errorf("Pod %s has the finalizers %v", name, pod.Finalizers)
	}
	return pod
}

// awaitReleased waits until the operator has removed the finalizer of a Pod.
func awaitReleased(t *testing.T, namespace, name string) {
	t.Helper()
	framework.Eventually(t, "Pod "+name+" to be released", func(ctx context.Context) (bool, error) {
		pod, err := shared.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(pod.Finalizers) == 0, err
	})
}

// awaitGone waits until the Pod with a UID does not exist.
func awaitGone(t *testing.T, p *framework.Installation, pod *corev1.Pod) {
	t.Helper()
	framework.Eventually(t, "Pod "+pod.Name+" to be deleted", func(ctx context.Context) (bool, error) {
		live, err := p.Kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && live.UID != pod.UID, framework.IgnoreNotFound(err)
	})
}

// checkCreatedOnce checks that exactly one Pod with a name was created in a namespace.
func checkCreatedOnce(t *testing.T, p *framework.Installation, namespace, name string) {
	t.Helper()
	created, err := p.Requests(func(r framework.Request) bool {
		return r.Verb == "create" && r.ObjectRef.Resource == "pods" && r.ObjectRef.Subresource == "" &&
			r.ObjectRef.Namespace == namespace && r.ObjectRef.Name == name && r.ResponseStatus.Code < 400
	})
	if err != nil || len(created) != 1 {
		t.Errorf("Pod %s was created %d times: %v", name, len(created), err)
	}
}

// waysToLose are the ways in which an At loses its Pod.
var waysToLose = map[string]func(context.Context, *framework.Installation, *corev1.Pod) error{
	"deletion": func(ctx context.Context, p *framework.Installation, pod *corev1.Pod) error {
		return p.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
	},
	"force": func(ctx context.Context, p *framework.Installation, pod *corev1.Pod) error {
		return p.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	},
	"eviction": func(ctx context.Context, p *framework.Installation, pod *corev1.Pod) error {
		return p.Kube.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		})
	},
}

func TestAtWhosePodIsLostFailsOnce(t *testing.T) {
	for name, lose := range waysToLose {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := shared.NewNamespace(t)
			pod := startEndless(t, shared, namespace, "lost")
			if err := lose(t.Context(), shared, pod); err != nil {
				t.Fatal(err)
			}
			at := shared.InPhase(t, namespace, "lost", v1.AtDone)
			got := message(at)
			if framework.Reason(at, v1.AtFailed) != "BackoffLimitExceeded" || !strings.Contains(got, "The Pod was deleted") {
				t.Errorf("the At says %q", got)
			}
			awaitGone(t, shared, pod)
			checkCreatedOnce(t, shared, namespace, pod.Name)
		})
	}
}

func TestAtRunsAgainAfterDeletionOnlyWithinBackoffLimit(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.Create(t, namespace, "twice", "sleep infinity", func(at *v1.At) { at.Spec.BackoffLimit = new(int32(1)) })
	for range 2 {
		pod := runningPod(t, shared, namespace, "twice-pod")
		if err := waysToLose["deletion"](t.Context(), shared, pod); err != nil {
			t.Fatal(err)
		}
		awaitGone(t, shared, pod)
	}
	if at := shared.InPhase(t, namespace, "twice", v1.AtDone); at.Status.Failed != 2 {
		t.Errorf("%d attempts failed, want 2", at.Status.Failed)
	}
	wantEvents(t, namespace, "Running", "PodDeleted", "Retrying", "BackoffLimitExceeded")
}

func TestDeletionsDoNotWaitForCommand(t *testing.T) {
	for name, args := range map[string][]string{
		"of an At in the background": {"at/endless"},
		"of an At in the foreground": {"at/endless", "--cascade=foreground"},
		"of a namespace":             nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := shared.NewNamespace(t)
			pod := startEndless(t, shared, namespace, "endless")
			if args == nil {
				args = []string{"namespace/" + namespace}
			}
			_, err := shared.Kubectl(t.Context(), "", append([]string{"delete", "-n", namespace, "--timeout=2m"}, args...)...)
			if err != nil {
				t.Fatal(err)
			}
			awaitGone(t, shared, pod)
		})
	}
}

func TestOrphanedPodHasNoFinalizer(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	pod := startEndless(t, shared, namespace, "orphan")
	if _, err := shared.Kubectl(t.Context(), "", "delete", "-n", namespace, "at/orphan", "--cascade=orphan"); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the Pod to be released", func(ctx context.Context) (bool, error) {
		live, err := shared.Kube.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && (live.UID != pod.UID || live.DeletionTimestamp != nil) {
			t.Error("the Pod was deleted")
		}
		return err == nil && len(live.OwnerReferences) == 0 && len(live.Finalizers) == 0, err
	})
}

func TestBeforeRolloutWhosePodIsDeletedFails(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	spec := smallest()
	spec.BeforeRollout = &v1alpha1.AppBeforeRollout{Command: []string{"sleep infinity"}}
	shared.CreateApp(t, namespace, "web", spec)
	pod := runningPod(t, shared, namespace, "web-before-rollout")
	if err := waysToLose["eviction"](t.Context(), shared, pod); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the App to fail", func(ctx context.Context) (bool, error) {
		app, err := shared.Windlass.WindlassV1alpha1().Apps(namespace).Get(ctx, "web", metav1.GetOptions{})
		return err == nil && reason(app) == "BeforeRolloutFailed" &&
			strings.Contains(message(app), "The Pod was deleted"), err
	})
	awaitGone(t, shared, pod)
	checkCreatedOnce(t, shared, namespace, pod.Name)
}

// TestPodsThatChangeWhileOperatorIsDown changes Pods while the operator is stopped, as after a drain of its node.
func TestPodsThatChangeWhileOperatorIsDown(t *testing.T) {
	t.Parallel()
	p := framework.Own(t)
	first := framework.Launch(t, p.Cluster)
	pods := map[string]*corev1.Pod{}
	for _, name := range []string{"again", "deletion", "force", "eviction", "orphan", "gone"} {
		pods[name] = startEndless(t, p, "default", name)
	}
	p.Create(t, "default", "ended", "sleep 5; exit 0", nil)
	ended := runningPod(t, p, "default", "ended-pod")
	first.Terminate()

	for name, lose := range waysToLose {
		if err := lose(t.Context(), p, pods[name]); err != nil {
			t.Fatal(err)
		}
	}
	framework.Eventually(t, "the command to end", func(ctx context.Context) (bool, error) {
		live, err := p.Kube.CoreV1().Pods("default").Get(ctx, ended.Name, metav1.GetOptions{})
		return err == nil && live.Status.Phase == corev1.PodSucceeded, err
	})
	if err := waysToLose["deletion"](t.Context(), p, ended); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"at/orphan", "--cascade=orphan"}, {"at/gone"}, {"at/again"}} {
		if _, err := p.Kubectl(t.Context(), "", append([]string{"delete", "-n", "default"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	p.Create(t, "default", "again", "exit 0", nil)

	second := framework.Launch(t, p.Cluster)
	defer second.Terminate()
	for name := range waysToLose {
		if at := p.InPhase(t, "default", name, v1.AtDone); framework.Reason(at, v1.AtFailed) == "" {
			t.Errorf("At %s did not fail", name)
		}
		awaitGone(t, p, pods[name])
		checkCreatedOnce(t, p, "default", pods[name].Name)
	}
	for _, name := range []string{"ended", "again"} {
		if at := p.InPhase(t, "default", name, v1.AtDone); framework.Reason(at, v1.AtComplete) == "" {
			t.Errorf("At %s did not succeed: %s", name, message(at))
		}
	}
	checkCreatedOnce(t, p, "default", ended.Name)
	awaitGone(t, p, ended)
	awaitGone(t, p, pods["gone"])
	framework.Eventually(t, "the orphaned Pod to be released", func(ctx context.Context) (bool, error) {
		live, err := p.Kube.CoreV1().Pods("default").Get(ctx, pods["orphan"].Name, metav1.GetOptions{})
		return err == nil && live.DeletionTimestamp == nil && len(live.Finalizers) == 0, err
	})
}

// TestUninstalledOperatorLeavesNoPodBehind runs commands of README.md after the operator was removed before its Ats.
// The commands remove the finalizer from the Pods of the Ats.
func TestUninstalledOperatorLeavesNoPodBehind(t *testing.T) {
	t.Parallel()
	p := framework.Own(t)
	operator := framework.Launch(t, p.Cluster)
	pod := startEndless(t, p, "default", "left")
	operator.Terminate()
	theirs := "example.com/theirs"
	if _, err := p.Kube.CoreV1().Pods("default").Patch(t.Context(), pod.Name, types.JSONPatchType,
		[]byte(`[{"op":"add","path":"/metadata/finalizers/-","value":"`+theirs+`"}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Kubectl(t.Context(), "", "delete", "-n", "default", "ats", "--all"); err != nil {
		t.Fatal(err)
	}
	runReadme(t, p, "command-tracking")
	live, err := p.Kube.CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil || !slices.Equal(live.Finalizers, []string{theirs}) {
		t.Errorf("the Pod has the finalizers %v, want only %s: %v", live.Finalizers, theirs, err)
	}
	runReadme(t, p, "command-tracking") // the commands are safe to repeat
}

// runReadme runs the code block of README.md that contains a text.
func runReadme(t *testing.T, p *framework.Installation, text string) {
	t.Helper()
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var block []string
	for line := range strings.Lines(string(page)) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			block = append(block, code)
			continue
		}
		if strings.Contains(strings.Join(block, ""), text) {
			break
		}
		block = nil
	}
	if len(block) == 0 {
		t.Fatalf("README.md has no code block with %s", text)
	}
	command := exec.CommandContext(t.Context(), "bash", "-eu", "-c", strings.Join(block, ""))
	command.Env = append(os.Environ(), "KUBECONFIG="+p.Kubeconfig(),
		"PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("running the commands of README.md: %v: %s", err, output)
	}
}
