package runonce

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

func TestMain(m *testing.M) { controllertest.Main(m, Messages) }

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// change changes a Pod in a case of a test.
type change = func(*corev1.Pod)

// in returns a Pod in the given phase whose command is in the given state, after the given changes.
func in(phase corev1.PodPhase, command corev1.ContainerState, changes ...change) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}}
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "command", Image: "tool:1", State: command}}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func exits(code int32, log string) corev1.ContainerState {
	return corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: log, FinishedAt: metav1.NewTime(noon)},
	}
}

func waits(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

var runs = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon)}}

// beside adds an injected container.
func beside(state corev1.ContainerState) change {
	return func(pod *corev1.Pod) {
		proxy := corev1.ContainerStatus{Name: "proxy", Image: "mesh/proxy:1", State: state}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, proxy)
	}
}

// because sets the reason and the message in the status of a Pod.
func because(reason, message string) change {
	return func(pod *corev1.Pod) { pod.Status.Reason, pod.Status.Message = reason, message }
}

// with adds a condition to a Pod. after is the time of the last transition of the condition, since noon.
func with(
	condition corev1.PodConditionType, is corev1.ConditionStatus, reason, message string, after time.Duration) change {
	c := corev1.PodCondition{Type: condition, Status: is, Reason: reason, Message: message}
	c.LastTransitionTime = metav1.NewTime(noon.Add(after))
	return func(pod *corev1.Pod) { pod.Status.Conditions = append(pod.Status.Conditions, c) }
}

// disrupted adds the condition that says why a Pod is about to end.
func disrupted(reason, message string, after time.Duration) change {
	return with(corev1.DisruptionTarget, corev1.ConditionTrue, reason, message, after)
}

// deleted marks a Pod that was deleted a minute after noon.
func deleted(graceSeconds int64) change {
	return func(pod *corev1.Pod) {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: noon.Add(time.Minute)}, &graceSeconds
	}
}

func restarted(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].LastTerminationState = exits(3, "") }

func withoutContainers(pod *corev1.Pod) { pod.Status.ContainerStatuses = nil }

func withFailedInit(pod *corev1.Pod) {
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "setup", State: exits(0, "")},
		{Name: "mesh-init", Image: "mesh/proxy:1", State: exits(1, "iptables\nno permission\n")},
	}
}

const (
	pending, running  = corev1.PodPending, corev1.PodRunning
	succeeded, failed = corev1.PodSucceeded, corev1.PodFailed

	s, m, h = time.Second, time.Minute, time.Hour
)

var (
	scheduled     = with(corev1.PodScheduled, corev1.ConditionTrue, "", "", 0)
	unschedulable = with(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "no room", 0)
	notReady      = with(corev1.PodReady, corev1.ConditionFalse, "", "", m)
	nodeGone      = disrupted("DeletionByPodGC", "PodGC: node no longer exists", 0)
	drained       = disrupted("EvictionByEvictionAPI", "Eviction API: evicting", 0)
	interrupted   = disrupted("TerminationByKubelet", "", -s)
	interruptedBy = disrupted("TerminationByKubelet", "", s)
	evicted       = because("Evicted", "The node was low on memory.")
)

func TestOutcomeOfCommandThatHasEnded(t *testing.T) {
	const (
		exit0, exit3 = "The command ended with exit code 0.", "The command ended with exit code 3."
		evictedEnd   = "The Pod failed before its command ended: Evicted: The node was low on memory."
		lost         = "The Pod was deleted before its command ended."
	)
	log := func(line string) string { return " The last line of its log: " + line }
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		now  time.Duration // since noon
		// want is the message about the end of the command. at is the time of the end, since noon.
		want string
		at   time.Duration
	}{
		{"the command succeeds", in(succeeded, exits(0, "done")), 0, exit0, 0},
		{"the command fails", in(failed, exits(3, "starting\nno table\n")), 0, exit3 + log("no table"), 0},
		{"the command succeeds beside a container that runs", in(running, exits(0, ""), beside(runs)), 0, exit0, 0},
		{"the command fails beside a container that runs", in(running, exits(3, ""), beside(runs)), 0, exit3, 0},
		{"the command succeeds before another container fails", in(failed, exits(0, ""), beside(exits(1, ""))), 0,
			exit0, 0},
		{"the command fails before another container succeeds", in(succeeded, exits(3, ""), beside(exits(0, ""))), 0,
			exit3, 0},
		{"the command succeeds before the deadline ends the Pod",
			in(failed, exits(0, ""), because("DeadlineExceeded", "")), 0,
			exit0, 0},
		{"the command is started again after it failed", in(running, runs, restarted), 0, exit3, 0},
		{"the command succeeds before its Pod is deleted", in(succeeded, exits(0, ""), deleted(30)), 0, exit0, 0},
		{"the command fails because its Pod is deleted", in(failed, exits(3, "stopping"), deleted(30)), 0,
			exit3 + " The Pod was deleted." + log("stopping"), 0},
		{"the command fails because its node is drained", in(failed, exits(3, ""), deleted(30), drained), 0,
			exit3 + " The Pod was deleted: Eviction API: evicting.", 0},
		{"the command ends with 0 because its node is out of memory",
			in(failed, exits(0, ""), evicted, interrupted), 0,
			evictedEnd, 0},
		{"the command succeeds before its node is out of memory", in(failed, exits(0, ""), evicted, interruptedBy), 0,
			exit0, 0},
		{"a Pod that is evicted before its command ends", in(failed, runs, evicted, scheduled, notReady), 0,
			evictedEnd, m},
		{"a Pod that its node rejects", in(failed, runs, because("OutOfcpu", "too little"), withoutContainers), 0,
			"The Pod failed before its command ended: OutOfcpu: too little", -h},
		{"a Pod that fails without a reason", in(failed, runs, deleted(30), withoutContainers, notReady), 0, lost, m},
		{"a Pod that succeeds without a container", in(succeeded, runs, withoutContainers), 0,
			"The Pod ended with phase Succeeded.", -h},
		{"a Pod that fails without a container", in(failed, waits("PodInitializing")), 0,
			"The Pod ended with phase Failed.", -h},
		{"a Pod whose injected init container fails",
			in(failed, waits("PodInitializing"), withFailedInit), 0,
			"The Pod failed before its command started: container mesh-init with image mesh/proxy:1, " +
				"which Windlass does not generate, ended with exit code 1." + log("no permission"), -h},
		{"a Pod whose node is gone", in(failed, runs, nodeGone), 0,
			"The Pod was deleted before its command ended: PodGC: node no longer exists.", -h},
		{"a Pod that is deleted by force, and whose kubelet does not say", in(running, runs, deleted(0)), 2 * m,
			lost, m},
		{"a Pod that is deleted before it has a node", in(pending, waits(""), deleted(0), unschedulable), m, lost, m},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, pod := range []*corev1.Pod{c.pod, trim(t, c.pod)} {
				end := outcomeOf(pod, "command", noon.Add(c.now)).End
				if end == nil {
					t.Fatal("the command has not ended")
				}
				controllertest.Equal(t, "message", c.want, end.Message)
				controllertest.Equal(t, "time", c.at, end.Time.Sub(noon))
				success := c.want == exit0 || strings.HasSuffix(c.want, "Succeeded.")
				controllertest.Equal(t, "success", success, end.Succeeded)
			}
		})
	}
}

func TestOutcomeOfCommandThatHasNotEnded(t *testing.T) {
	const image, noNode = "the image tool:1 cannot be pulled", "the scheduler found no node for the Pod"
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		now  time.Duration // since noon
		// want says why the command does not start. again is the time after which time alone can change the outcome.
		want  string
		again time.Duration
	}{
		{"the command runs", in(running, runs), 0, "", 0},
		{"the command runs in a Pod that is being deleted", in(running, runs, deleted(30)), h, "", 0},
		{"a Pod that is deleted by force, and whose kubelet may report", in(running, runs, deleted(0)), 80 * s,
			"", 40 * s},
		{"a Pod that is deleted by force, and may have been started",
			in(pending, waits(""), deleted(0), scheduled), 80 * s,
			"", 40 * s},
		{"a command whose image cannot be pulled", in(pending, waits("ErrImagePull")), 0, image, 0},
		{"a command whose image still cannot be pulled", in(pending, waits("ImagePullBackOff")), 0, image, 0},
		{"a command whose container is being created",
			in(pending, waits("ContainerCreating"), beside(waits("ContainerCreating"))), 0,
			"", 0},
		{"the command runs although an injected container does not",
			in(running, runs, beside(waits("ErrImagePull"))), 0,
			"", 0},
		{"a Pod that has had no node for less than a minute", in(pending, waits(""), unschedulable), 20 * s,
			"", 40 * s},
		{"a Pod that has had no node for a minute", in(pending, waits(""), unschedulable), m, noNode, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, pod := range []*corev1.Pod{c.pod, trim(t, c.pod)} {
				o := outcomeOf(pod, "command", noon.Add(c.now))
				controllertest.Equal(t, "end", nil, o.End)
				controllertest.Equal(t, "problem", c.want, ptr.Deref(o.Problem, pods.Problem{}).Message)
				controllertest.Equal(t, "time until it can change", c.again, o.RequeueAfter)
			}
		})
	}
}

func TestOutcomeNamesInjectedContainer(t *testing.T) {
	for name, injected := range kindtest.InjectedPods("command", noon) {
		t.Run(name, func(t *testing.T) {
			o := outcomeOf(&corev1.Pod{Status: injected.Status}, "command", noon)
			controllertest.Equal(t, "problem", injected.Problem, ptr.Deref(o.Problem, pods.Problem{}).Message)
			controllertest.Equal(t, "words", injected.Words, ptr.Deref(o.Problem, pods.Problem{}).Words)
		})
	}
}

func TestOutlives(t *testing.T) {
	done := exits(0, "")
	limited := func(seconds int64) change {
		return func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = &seconds }
	}
	native := func(pod *corev1.Pod) {
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "proxy", State: runs}}
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a container that runs after the command":            {in(running, done, beside(runs)), true},
		"a container that starts after the command":          {in(running, done, beside(waits("Creating"))), true},
		"a command that is started again":                    {in(running, runs, restarted), true},
		"a container that runs until the command's deadline": {in(running, done, beside(runs), limited(60)), true},
		"a container that is about to be ended":              {in(running, done, beside(runs), limited(1)), false},
		"a container beside the command":                     {in(running, runs, beside(runs)), false},
		"a container that has ended too":                     {in(running, done, beside(done)), false},
		"a sidecar, which the kubelet ends":                  {in(running, done, native), false},
		"a Pod that has ended":                               {in(failed, done, beside(runs)), false},
		"a Pod that is being deleted":                        {in(running, done, beside(runs), deleted(30)), false},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Equal(t, "outlives", c.want, outlives(c.pod, "command"))
			controllertest.Equal(t, "outlives, as cached", c.want, outlives(trim(t, c.pod), "command"))
		})
	}
}

func trim(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	trimmed, err := pods.Trim(pod)
	if err != nil {
		t.Fatal(err)
	}
	return trimmed.(*corev1.Pod)
}
