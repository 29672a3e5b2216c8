package pods_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

func TestEndingOf(t *testing.T) {
	with := func(phase corev1.PodPhase, states ...corev1.ContainerState) *corev1.Pod {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		for _, state := range states {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: "command", State: state})
		}
		return pod
	}
	rejected := with(corev1.PodFailed)
	rejected.Status.Reason, rejected.Status.Message = "NodeAffinity", "Pod was rejected"
	deleted := with(corev1.PodFailed, ended(137, "Error", ""))
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string // the message, or "" if the command has not ended
	}{
		"a command that runs":            {with(corev1.PodRunning, runningSince(now)), ""},
		"a command that succeeded":       {with(corev1.PodSucceeded, ended(0, "Completed", "")), "The command ended with exit code 0."},
		"a command that failed":          {with(corev1.PodFailed, ended(3, "Error", "starting\nno table\n")), "The command ended with exit code 3. The last line of its log: no table"},
		"a Pod that its node rejected":   {rejected, "The Pod failed before its command ended: NodeAffinity: Pod was rejected"},
		"a Pod without a container":      {with(corev1.PodSucceeded), "The Pod ended with phase Succeeded."},
		"a Pod that was deleted is lost": {deleted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			end := pods.EndingOf(c.pod, "command")
			if end == nil {
				end = &pods.Ending{}
			}
			controllertest.Equal(t, "message", c.want, end.Message)
		})
	}
}

func TestRefusedHasAdvice(t *testing.T) {
	refused := func(why string) error { return apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New(why)) }
	for name, c := range map[string]struct{ why, advice, want string }{
		"a quota":              {"exceeded quota: small", "", ". Raise the quota, or wait until other Pods end. The operator retries within 5m0s."},
		"a policy":             {"denied by a policy", "", ". Ask the administrator of the namespace which Pods are allowed. The operator retries within 5m0s."},
		"advice from the kind": {"violates PodSecurity", "Restrict it", ". Restrict it. The operator retries within 5m0s."},
	} {
		t.Run(name, func(t *testing.T) {
			err := pods.Refused("web", refused(c.why), c.advice, time.Second)
			controllertest.Equal(t, "reason", "PodRefused", controller.ReasonOf(err))
			message := err.Error()
			if !strings.HasPrefix(message, "The API server rejected Pod web: ") || !strings.HasSuffix(message, c.why+c.want) {
				t.Errorf("the message is %s", message)
			}
		})
	}
}
