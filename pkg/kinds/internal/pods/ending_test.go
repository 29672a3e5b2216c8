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
	exceeded := with(corev1.PodFailed, ended(0, "Completed", ""))
	exceeded.Status.Reason = "DeadlineExceeded"
	restarted := with(corev1.PodRunning, runningSince(now))
	restarted.Status.ContainerStatuses[0].LastTerminationState = ended(3, "Error", "")
	disrupted := func(pod *corev1.Pod, reason, message string) *corev1.Pod {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message}}
		return pod
	}
	deleted, stopping := with(corev1.PodFailed, ended(137, "Error", "stopping")), with(corev1.PodRunning, runningSince(now))
	succeeded, evicted := with(corev1.PodSucceeded, ended(0, "Completed", "")), disrupted(with(corev1.PodFailed, ended(137, "Error", "")), "EvictionByEvictionAPI", "Eviction API: evicting")
	for _, pod := range []*corev1.Pod{deleted, stopping, succeeded, evicted} {
		pod.DeletionTimestamp = &metav1.Time{Time: now}
	}
	interrupted := disrupted(with(corev1.PodFailed, ended(0, "Completed", "")), "TerminationByKubelet", "")
	interrupted.Status.Reason, interrupted.Status.Message = "Evicted", "The node was low on resource: memory"
	interrupted.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(now)
	before := interrupted.DeepCopy()
	interrupted.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-time.Second))
	before.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(time.Second))
	gone := disrupted(with(corev1.PodFailed, runningSince(now)), "DeletionByPodGC", "PodGC: node no longer exists")
	initFailed := with(corev1.PodFailed, waiting("PodInitializing", ""))
	initFailed.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "setup", State: ended(0, "Completed", "")}, {Name: "mesh-init", Image: "mesh/proxy:1", State: ended(1, "Error", "iptables\nno permission\n")},
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string // the message, or "" if the command has not ended
	}{
		"a command that runs":                                                  {with(corev1.PodRunning, runningSince(now)), ""},
		"a command that succeeded":                                             {with(corev1.PodSucceeded, ended(0, "Completed", "")), "The command ended with exit code 0."},
		"a command that failed":                                                {with(corev1.PodFailed, ended(3, "Error", "starting\nno table\n")), "The command ended with exit code 3. The last line of its log: no table"},
		"a Pod that its node rejected":                                         {rejected, "The Pod failed before its command ended: NodeAffinity: Pod was rejected"},
		"a Pod without a container":                                            {with(corev1.PodSucceeded), "The Pod ended with phase Succeeded."},
		"a command that failed because its Pod was deleted":                    {deleted, "The command ended with exit code 137. The Pod was deleted. The last line of its log: stopping"},
		"a Pod that was drained":                                               {evicted, "The command ended with exit code 137. The Pod was deleted: Eviction API: evicting."},
		"a command that ended with 0 because its node was out of memory":       {interrupted, "The Pod failed before its command ended: Evicted: The node was low on resource: memory"},
		"a command that succeeded before its node was out of memory":           {before, "The command ended with exit code 0."},
		"a Pod whose node is gone":                                             {gone, "The Pod was deleted before its command ended: PodGC: node no longer exists."},
		"a command that succeeded before its Pod was deleted":                  {succeeded, "The command ended with exit code 0."},
		"a command that runs in a Pod that is being deleted":                   {stopping, ""},
		"a command that succeeded beside a container that runs":                {with(corev1.PodRunning, ended(0, "Completed", "")), "The command ended with exit code 0."},
		"a command that failed beside a container that runs":                   {with(corev1.PodRunning, ended(3, "Error", "")), "The command ended with exit code 3."},
		"a command that succeeded before the deadline ended another container": {exceeded, "The command ended with exit code 0."},
		"a command that succeeded before another container failed":             {with(corev1.PodFailed, ended(0, "Completed", "")), "The command ended with exit code 0."},
		"a command that failed before another container succeeded":             {with(corev1.PodSucceeded, ended(3, "Error", "")), "The command ended with exit code 3."},
		"a command that was started again after it had failed":                 {restarted, "The command ended with exit code 3."},
		"a command that does not run because an init container failed":         {with(corev1.PodFailed, waiting("PodInitializing", "")), "The Pod ended with phase Failed."},
		"a Pod whose injected init container failed": {
			trim(t, initFailed), "The Pod failed before its command started: container mesh-init with image mesh/proxy:1, which is not part of what Windlass creates, " +
				"ended with exit code 1. The last line of its log: no permission",
		},
	} {
		t.Run(name, func(t *testing.T) {
			end := pods.EndingOf(c.pod, "command")
			if end == nil {
				end = &pods.Ending{}
			}
			controllertest.Equal(t, "message", c.want, end.Message)
			controllertest.Equal(t, "succeeded", strings.HasSuffix(c.want, "code 0.") || strings.HasSuffix(c.want, "Succeeded."), end.Succeeded)
		})
	}
}

func TestLostOf(t *testing.T) {
	forced := func(phase corev1.PodPhase, grace int64) *corev1.Pod {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: now}, &grace
		return pod
	}
	scheduled := forced(corev1.PodPending, 0)
	scheduled.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		past time.Duration
		want string // the message, or "" if the Pod is not lost
		wait time.Duration
	}{
		"a Pod that runs": {&corev1.Pod{}, time.Hour, "", 0},
		"a Pod that is being deleted with a grace period": {forced(corev1.PodRunning, 30), time.Hour, "", 0},
		"a Pod whose kubelet may report its end":          {forced(corev1.PodRunning, 0), 20 * time.Second, "", 40 * time.Second},
		"a Pod whose kubelet may have started it":         {scheduled, 20 * time.Second, "", 40 * time.Second},
		"a Pod whose kubelet does not report its end":     {forced(corev1.PodRunning, 0), time.Minute, "The Pod was deleted before its command ended.", 0},
		"a Pod that has no node":                          {forced(corev1.PodPending, 0), 0, "The Pod was deleted before its command ended.", 0},
	} {
		t.Run(name, func(t *testing.T) {
			end, wait := pods.LostOf(c.pod, now.Add(c.past))
			if end == nil {
				end = &pods.Ending{}
			}
			controllertest.Equal(t, "message", c.want, end.Message)
			controllertest.Equal(t, "wait", c.wait, wait)
			controllertest.Equal(t, "deleted", c.want != "", end.Deleted)
		})
	}
}

func TestOutlives(t *testing.T) {
	injected := func(states ...corev1.ContainerState) *corev1.Pod {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		for i, state := range states {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: []string{"command", "proxy"}[i], State: state})
		}
		return pod
	}
	done, runs := ended(0, "Completed", ""), runningSince(now)
	limited := func(seconds int64) *corev1.Pod {
		pod := injected(done, runs)
		pod.Spec.ActiveDeadlineSeconds = &seconds
		return pod
	}
	native := injected(done)
	native.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "proxy", State: runs}}
	failed := injected(done, runs)
	failed.Status.Phase = corev1.PodFailed
	deleted := injected(done, runs)
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a container that runs after the command":            {injected(done, runs), true},
		"a container that starts after the command":          {injected(done, waiting("ContainerCreating", "")), true},
		"a container that runs until the command's deadline": {limited(60), true},
		"a container that is about to be ended":              {limited(1), false},
		"a container beside the command":                     {injected(runs, runs), false},
		"a container that has ended too":                     {injected(done, done), false},
		"a sidecar, which the kubelet ends":                  {native, false},
		"a Pod that has ended":                               {failed, false},
		"a Pod that is being deleted":                        {deleted, false},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Equal(t, "outlives", c.want, pods.Outlives(c.pod, "command"))
			controllertest.Equal(t, "outlives, as cached", c.want, pods.Outlives(trim(t, c.pod), "command"))
		})
	}
}

func TestRefusedPodsNoteHasAdvice(t *testing.T) {
	note := pods.RefusedPodsNote("web", `pods "web-1-a" is forbidden: exceeded quota: small`)
	controllertest.Equal(t, "reason", "PodRefused", note.Reason)
	const want = `The API server rejects Pods of Deployment web: pods "web-1-a" is forbidden: exceeded quota: small. ` +
		"Raise the quota: a rollout needs room for one more Pod."
	controllertest.Equal(t, "message", want, note.Message)
}

func TestIsUndecided(t *testing.T) {
	pod := corev1.Resource("pods")
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                      {nil, false},
		"a webhook without dry runs":    {apierrors.NewBadRequest(`admission webhook "a" does not support dry run`), true},
		"a missing right":               {apierrors.NewForbidden(pod, "", errors.New(`User "operator" cannot create resource "pods" in API group ""`)), true},
		"a quota":                       {apierrors.NewForbidden(pod, "shop-0", errors.New("exceeded quota: small")), false},
		"a webhook that rejects a Pod":  {apierrors.NewBadRequest(`admission webhook "a" denied the request: does not like it`), false},
		"a Pod that is invalid":         {apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "shop-0", nil), false},
		"an API server without storage": {apierrors.NewInternalError(errors.New("etcd is full")), false},
	} {
		controllertest.Equal(t, name, c.want, pods.IsUndecided(c.err))
	}
}

func TestRefusedHasAdvice(t *testing.T) {
	refused := func(why string) error { return apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New(why)) }
	for name, c := range map[string]struct{ why, advice, want string }{
		"a quota":              {"exceeded quota: small", "", ". Raise the quota, or wait until other Pods end. The operator retries within 5m0s."},
		"a policy":             {"denied by a policy", "", ". Ask the administrator of the namespace which Pods are allowed. The operator retries within 5m0s."},
		"a LimitRange":         {"maximum memory usage per Container is 1Gi", "", ". Set spec.resources to what the namespace allows. The operator retries within 5m0s."},
		"a webhook":            {"failed calling webhook \"pods.example.com\": timeout", "", ". Ask the administrator of the cluster to repair the admission webhook. The operator retries within 5m0s."},
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
