//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/framework"
)

// ended describes the result of an At in one line.
func ended(at *v1.At) string {
	code := "none"
	if at.Status.ExitCode != nil {
		code = fmt.Sprint(*at.Status.ExitCode)
	}
	return fmt.Sprintf("Complete %q, Failed %q, exit code %s, failed %d", framework.Reason(at, v1.AtComplete),
		framework.Reason(at, v1.AtFailed), code, at.Status.Failed)
}

func TestAtRunsCommand(t *testing.T) {
	for name, c := range map[string]struct {
		line   string
		change func(*v1.At)
		ended  string
		logs   string
	}{
		"it succeeds": {
			line: "echo Hello", ended: `Complete "CommandSucceeded", Failed "", exit code 0, failed 0`, logs: "Hello\n",
		},
		"it fails": {
			line: "echo Oh; exit 3", ended: `Complete "", Failed "BackoffLimitExceeded", exit code 3, failed 1`, logs: "Oh\n",
		},
		"it does not exist": {
			change: func(at *v1.At) { at.Spec.Command = []string{"/no/such/thing"} },
			ended:  `Complete "", Failed "BackoffLimitExceeded", exit code 128, failed 1`,
			logs:   "none",
		},
		"it succeeds at the second attempt": {
			line: `echo "attempt $ATTEMPT"; test "$ATTEMPT" -ge 1`,
			change: func(at *v1.At) {
				at.Spec.BackoffLimit = ptr.To[int32](2)
				at.Spec.Env = []corev1.EnvVar{{Name: "ATTEMPT", ValueFrom: &corev1.EnvVarSource{
					FieldRef: &corev1.ObjectFieldSelector{
						FieldPath: "metadata.annotations['cnat.programming-kubernetes.info/attempt']",
					},
				}}}
			},
			ended: `Complete "CommandSucceeded", Failed "", exit code 0, failed 1`, logs: "attempt 1\n",
		},
		"it has arguments and an environment": {
			change: func(at *v1.At) {
				at.Spec.Command, at.Spec.Args = []string{"sh", "-c"}, []string{`echo "$GREETING, $WHOM"`}
				at.Spec.Env = []corev1.EnvVar{{Name: "GREETING", Value: "Hello"}}
				at.Spec.EnvFrom = []corev1.EnvFromSource{
					{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
				}
			},
			ended: `Complete "CommandSucceeded", Failed "", exit code 0, failed 0`, logs: "Hello, world\n",
		},
		"it is due in some seconds": {
			line: "echo Hello", change: func(at *v1.At) { at.Spec.Schedule = framework.Soon() },
			ended: `Complete "CommandSucceeded", Failed "", exit code 0, failed 0`, logs: "Hello\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := here.NewNamespace(t)
			settings := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"WHOM": "world"},
			}
			_, err := here.Kube.CoreV1().ConfigMaps(namespace).Create(t.Context(), settings, metav1.CreateOptions{})
			if err != nil {
				t.Fatalf("creating a ConfigMap: %v", err)
			}
			here.Create(t, namespace, "command", c.line, c.change)
			if got := ended(here.InPhase(t, namespace, "command", v1.AtDone)); got != c.ended {
				t.Errorf("the At ended with %s, want %s", got, c.ended)
			}
			if c.logs == "none" {
				return // the container was never created, so it has no log
			}
			if got := logs(t, namespace, "command"); got != c.logs {
				t.Errorf("the command printed %q, want %q", got, c.logs)
			}
		})
	}
}

func TestAtEndsCommandAfterDeadlineAndKeepsItsLog(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	here.Create(t, namespace, "long", "trap 'exit 1' TERM; echo still working; while true; do sleep 1; done",
		func(at *v1.At) { at.Spec.ActiveDeadlineSeconds = ptr.To[int64](3) })
	at := here.InPhase(t, namespace, "long", v1.AtDone)
	t.Logf("%s: %s", ended(at), meta.FindStatusCondition(at.Status.Conditions, v1.AtFailed).Message)
	if got, want := ended(at), `Complete "", Failed "DeadlineExceeded", exit code 1, failed 0`; got != want {
		t.Errorf("the At ended with %s, want %s", got, want)
	}
	message := meta.FindStatusCondition(at.Status.Conditions, v1.AtFailed).Message
	if !strings.HasSuffix(message, "The last line of its log: still working") {
		t.Errorf("the message has no line of the log: %s", message)
	}
	if got := logs(t, namespace, "long"); got != "still working\n" {
		t.Errorf("after the deadline the log is %q, want the output of the command", got)
	}
}

func TestAtWhoseStartingDeadlineHasPassedNeverRuns(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	here.Create(t, namespace, "late", "sleep 600", func(at *v1.At) { at.Spec.StartingDeadlineSeconds = ptr.To[int64](5) })
	got := ended(here.InPhase(t, namespace, "late", v1.AtDone))
	want := `Complete "", Failed "DeadlineExceeded", exit code none, failed 0`
	if got != want {
		t.Errorf("the At ended with %s, want %s", got, want)
	}
	_, err := here.Kube.CoreV1().Pods(namespace).Get(t.Context(), "late-pod", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the At has a Pod: %v", err)
	}
}

// TestAtReportsImagePullFailure checks that the status has the reason of the failure while the At runs, and also after
// its deadline.
func TestAtReportsImagePullFailure(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	here.Create(t, namespace, "stuck", "true", func(at *v1.At) {
		at.Spec.Image, at.Spec.ActiveDeadlineSeconds = missingImage, ptr.To[int64](15)
	})
	framework.Eventually(t, "the condition Progressing to report the image", func(ctx context.Context) (bool, error) {
		at, err := here.Windlass.CnatV1().Ats(namespace).Get(ctx, "stuck", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		progressing := meta.FindStatusCondition(at.Status.Conditions, "Progressing")
		return progressing != nil && progressing.Reason == "PodNotStarting" &&
			strings.Contains(progressing.Message, missingImage), nil
	})
	message := meta.FindStatusCondition(here.InPhase(t, namespace, "stuck", v1.AtDone).Status.Conditions,
		v1.AtFailed).Message
	t.Log(message)
	if !strings.HasPrefix(message, "The command did not end within 15 s. Pod stuck-pod does not start: ") {
		t.Errorf("after the deadline the message is %q", message)
	}
}

func TestAtWhosePodIsDeletedDuringCommandFails(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	here.Create(t, namespace, "lost", "sleep 600", nil)
	framework.Eventually(t, "the Pod to run", func(ctx context.Context) (bool, error) {
		pod, err := here.Kube.CoreV1().Pods(namespace).Get(ctx, "lost-pod", metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning, nil
	})
	if _, err := kubectl(t.Context(), "", "delete", "pod", "-n", namespace, "lost-pod", "--grace-period=1"); err != nil {
		t.Fatal(err)
	}
	want := `Complete "", Failed "BackoffLimitExceeded", exit code 137, failed 1`
	if got := ended(here.InPhase(t, namespace, "lost", v1.AtDone)); got != want {
		t.Errorf("the At ended with %s, want %s", got, want)
	}
	framework.Eventually(t, "the Pod to be gone", func(ctx context.Context) (bool, error) {
		_, err := here.Kube.CoreV1().Pods(namespace).Get(ctx, "lost-pod", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}
