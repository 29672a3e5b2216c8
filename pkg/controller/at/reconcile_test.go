package at

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/controllertest"
	cnatfake "windlass.dev/windlass/pkg/generated/clientset/versioned/fake"
	cnatlisters "windlass.dev/windlass/pkg/generated/listers/cnat/v1"
)

var (
	noon     = time.Date(2030, 2, 10, 12, 0, 0, 0, time.UTC)
	writePod = "create pods default/example-pod"
	status   = "update ats/status default/example"
)

// example is an At that is due at noon, after the given changes.
func example(changes ...func(*v1.At)) *v1.At {
	at := &v1.At{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example", UID: "at-uid", ResourceVersion: "1", Generation: 1},
		Spec:       v1.AtSpec{Schedule: "2030-02-10T13:00:00+01:00", Command: []string{"echo", "Hello"}},
	}
	for _, change := range changes {
		change(at)
	}
	return at
}

// running is what an At is once its start at noon is stored.
func running(at *v1.At) {
	setPending(at, noon)
	setRunning(at, noon)
	at.Status.ObservedGeneration = 1
	controllerConditions(at)
}

// controllerConditions adds what the engine would have added.
func controllerConditions(at *v1.At) {
	at.Status.Conditions = append(at.Status.Conditions, metav1.Condition{Type: "Degraded", Status: metav1.ConditionFalse, Reason: "AsExpected"})
	for i := range at.Status.Conditions {
		at.Status.Conditions[i].ObservedGeneration = 1
		at.Status.Conditions[i].LastTransitionTime = metav1.NewTime(noon)
	}
}

// pod is the Pod of example, after the given changes.
func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := desiredPod(example(), DefaultImage)
	p.UID, p.ResourceVersion = "pod-uid", "2"
	p.Status.Phase = corev1.PodRunning
	for _, change := range changes {
		change(p)
	}
	return p
}

// ended makes a Pod whose command ended a minute after noon.
func ended(code int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodSucceeded
		if code != 0 {
			p.Status.Phase = corev1.PodFailed
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(noon.Add(time.Minute))},
		}}}
	}
}

func owner(uid types.UID, kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: uid, Controller: &yes}}
	}
}

func deadline(n int64) func(*v1.At) { return func(at *v1.At) { at.Spec.ActiveDeadlineSeconds = &n } }

// pass is what one pass did.
type pass struct {
	writes, conditions, events []string
	status                     v1.AtStatus
	result                     controller.Result
	err                        error
}

// run does one pass for at, at a time, with cached Pods in the cache and, beside
// them, hidden ones on the server alone.
func run(t *testing.T, at *v1.At, now time.Time, cached, hidden []*corev1.Pod) pass {
	t.Helper()
	var onServer []runtime.Object
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, p := range cached {
		trimmed, err := trimPod(p)
		if err != nil {
			t.Fatal(err)
		}
		controllertest.Load(t, pods, trimmed.(*corev1.Pod))
		onServer = append(onServer, p)
	}
	for _, p := range hidden {
		onServer = append(onServer, p)
	}
	ats := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	controllertest.Load(t, ats, at)
	kube, cnat := kubefake.NewClientset(onServer...), cnatfake.NewSimpleClientset(at.DeepCopy())
	journal, recorder, clk := controllertest.NewJournal(kube, cnat), &controllertest.Recorder{}, clocktesting.NewFakePassiveClock(now)
	pipeline := &controller.Pipeline[*v1.At]{
		Get: func(key controller.Key) (*v1.At, error) {
			return cnatlisters.NewAtLister(ats).Ats(key.Namespace).Get(key.Name)
		},
		Client: func(namespace string) controller.Client[*v1.At] { return cnat.CnatV1().Ats(namespace) },
		Store:  &controllertest.Store{}, Guard: controller.NewGuard(), Events: recorder, Clock: clk,
		Reconciler: &reconciler{
			ats: cnat.CnatV1(), pods: kube.CoreV1(), cache: corelisters.NewPodLister(pods),
			created: func(controller.Key, *corev1.Pod) {}, image: DefaultImage, clock: clk, starts: newStarts(),
		},
	}
	p := pass{status: at.Status}
	p.result, p.err = pipeline.Sync(t.Context(), controller.Key{Namespace: at.Namespace, Name: at.Name})
	p.writes, p.events = journal.Writes(), recorder.Events()
	if written, ok := journal.Object(status).(*v1.At); ok {
		p.status = written.Status
		p.conditions = controllertest.Conditions(written)
	}
	return p
}

func TestReconcile(t *testing.T) {
	for name, c := range map[string]struct {
		at             *v1.At
		now            time.Time
		cached, hidden []*corev1.Pod

		writes []string
		phase  v1.AtPhase
		ready  string // "reason" of Ready as an event
		after  time.Duration
		failed string // the error, if there is one
	}{
		"before its time it waits exactly as long as is left": {
			at: example(), now: noon.Add(-time.Hour), writes: []string{status}, phase: v1.AtPending, ready: "Scheduled", after: time.Hour},
		"at its time the start is stored before there is a Pod": {
			at: example(), now: noon, writes: []string{status}, phase: v1.AtRunning, ready: "Running"},
		"a schedule long past means now": {
			at: example(), now: noon.AddDate(1, 0, 0), writes: []string{status}, phase: v1.AtRunning, ready: "Running"},
		"suspended it waits for no time": {
			at: example(func(at *v1.At) { yes := true; at.Spec.Suspend = &yes }), now: noon, writes: []string{status}, phase: v1.AtPending, ready: "Suspended"},
		"a start that was missed is not made up for": {
			at: example(func(at *v1.At) { n := int64(5); at.Spec.StartingDeadlineSeconds = &n }), now: noon.Add(6 * time.Second),
			writes: []string{status}, phase: v1.AtDone, ready: "DeadlineExceeded"},
		"a start within its deadline is made": {
			at: example(func(at *v1.At) { n := int64(5); at.Spec.StartingDeadlineSeconds = &n }), now: noon.Add(5 * time.Second),
			writes: []string{status}, phase: v1.AtRunning, ready: "Running"},
		"a schedule that cannot be read waits for an edit": {
			at: example(func(at *v1.At) { at.Spec.Schedule = "tomorrow" }), now: noon, writes: []string{status}, phase: v1.AtPending, ready: "InvalidSchedule",
			failed: `spec.schedule "tomorrow" is not an instant in RFC 3339, such as 2026-02-10T20:30:00Z; edit it: parsing time "tomorrow" as "2006-01-02T15:04:05Z07:00": cannot parse "tomorrow" as "2006"`},
		"a start that is stored makes the Pod": {
			at: example(running), now: noon, writes: []string{writePod}, phase: v1.AtRunning},
		"a status edited to Running does not run before the time": {
			at: example(running), now: noon.Add(-time.Minute), phase: v1.AtRunning, after: time.Minute},
		"a Pod that runs is waited for": {
			at: example(running), now: noon, cached: []*corev1.Pod{pod()}, phase: v1.AtRunning},
		"a Pod that the cache does not have yet is not made twice": {
			at: example(running), now: noon, hidden: []*corev1.Pod{pod()}, writes: []string{writePod}, phase: v1.AtRunning, after: lookAgain},
		"a command that ended well": {
			at: example(running), now: noon.Add(time.Hour), cached: []*corev1.Pod{pod(ended(0))}, writes: []string{status}, phase: v1.AtDone, ready: "CommandSucceeded"},
		"a command that failed": {
			at: example(running), now: noon.Add(time.Hour), cached: []*corev1.Pod{pod(ended(3))}, writes: []string{status}, phase: v1.AtDone, ready: "BackoffLimitExceeded"},
		"a failure with a try left waits with its Pod": {
			at: example(running, func(at *v1.At) { n := int32(1); at.Spec.BackoffLimit = &n }), now: noon.Add(time.Minute), cached: []*corev1.Pod{pod(ended(3))},
			writes: []string{status}, phase: v1.AtRunning, ready: "Retrying", after: 10 * time.Second},
		"a Pod of somebody else is left alone": {
			at: example(running), now: noon, hidden: []*corev1.Pod{pod(owner("x", "Job", "theirs"))}, writes: []string{writePod, status}, phase: v1.AtRunning, ready: "NameConflict",
			failed: "the name is taken by Pod default/example-pod, which belongs to Job theirs; delete or rename that Pod, or give this At another name"},
		"the Pod of an earlier At of the name is waited for": {
			at: example(running), now: noon, cached: []*corev1.Pod{pod(owner("x", "At", "example"))}, writes: []string{status}, phase: v1.AtRunning, ready: "PodTerminating",
			failed: "Pod example-pod of an earlier At of this name is still being deleted."},
		"a Pod deleted before its command ended did not fail": {
			at: example(running), now: noon.Add(time.Hour), phase: v1.AtRunning,
			cached: []*corev1.Pod{pod(ended(137), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon.Add(time.Minute)} })}},
		"a deadline ahead is a time to look again": {
			at: example(running, deadline(60)), now: noon.Add(20 * time.Second), cached: []*corev1.Pod{pod()}, phase: v1.AtRunning, after: 40 * time.Second},
		"a deadline past ends the Pod that was seen": {
			at: example(running, deadline(60)), now: noon.Add(time.Minute), cached: []*corev1.Pod{pod()},
			writes: []string{"delete pods default/example-pod", status}, phase: v1.AtDone, ready: "DeadlineExceeded"},
		"a command that ended in time is not ended by its deadline": {
			at: example(running, deadline(60)), now: noon.Add(time.Hour), cached: []*corev1.Pod{pod(ended(0))}, writes: []string{status}, phase: v1.AtDone, ready: "CommandSucceeded"},
		"an image that cannot be pulled is shown": {
			at: example(running), now: noon, phase: v1.AtRunning, writes: []string{status}, ready: "PodNotStarting",
			cached: []*corev1.Pod{pod(func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}
			})}},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, c.at, c.now, c.cached, c.hidden)
			controllertest.Equal(t, "writes", c.writes, got.writes)
			controllertest.Equal(t, "phase", c.phase, got.status.Phase)
			controllertest.Equal(t, "requeue", c.after, got.result.RequeueAfter)
			if c.failed == "" && got.err != nil || c.failed != "" && fmt.Sprint(got.err) != c.failed {
				t.Errorf("error: wanted %q, got %v", c.failed, got.err)
			}
			reason := ""
			if len(got.events) > 0 {
				reason = eventReason(got.events[0])
			}
			controllertest.Equal(t, "event", c.ready, reason)
			if len(got.events) > 1 {
				t.Errorf("a pass told of more than one transition: %v", got.events)
			}
		})
	}
}

// eventReason is the second word of a recorded event.
func eventReason(event string) string {
	var kind, reason string
	_, _ = fmt.Sscan(event, &kind, &reason)
	return reason
}

func TestRetriesWaitAsThoseOfAJob(t *testing.T) {
	var got []time.Duration
	for failed := range int32(8) {
		got = append(got, retryDelay(failed+1))
	}
	want := []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 320 * time.Second, 6 * time.Minute, 6 * time.Minute}
	controllertest.Equal(t, "delays", want, got)
}

func TestLabelsOfLongNamesDiffer(t *testing.T) {
	long := fmt.Sprintf("%0100d", 1)
	a, b := labelValue(long+"a"), labelValue(long+"b")
	if a == b || len(a) != 63 || labelValue("short") != "short" {
		t.Errorf("labels %q and %q", a, b)
	}
}
