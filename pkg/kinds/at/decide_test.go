package at

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestDecide(t *testing.T) {
	once, twice := example(running), example(running, withBackoffLimit(1))
	limited, late := example(running, withActiveDeadline(60)), example(running, withActiveDeadline(90))
	limitedTwice := example(running, withActiveDeadline(60), withBackoffLimit(1))
	longest := example(running, withActiveDeadline(math.MaxInt64))
	retried := func(changes ...func(*v1.At)) *v1.At {
		return example(append([]func(*v1.At){withBackoffLimit(1), retrying(1)}, changes...)...)
	}
	lowered := retried(withBackoffLimit(0))
	patient := pod(started, withPodDeadline(60), func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](120)
	})
	killed, notYet := pod(started, withPodDeadline(60)), pod(waiting("ContainerCreating"), withPodDeadline(60))
	// beside returns a Pod that the kubelet ended at its deadline, after the command had ended beside a proxy.
	beside := func(code int32) *corev1.Pod { return pod(exited(code), besideProxy, endedByDeadline) }
	const s, m, h = time.Second, time.Minute, time.Hour
	for _, c := range []struct {
		name string
		at   *v1.At
		pod  *corev1.Pod
		now  time.Duration // since noon
		// want is the next step. again is the time after which time alone can change the step.
		want  step
		again time.Duration
	}{
		{"no Pod", once, nil, 0, stepCreate, 0},
		{"no Pod, and a status that somebody has edited", once, nil, -h, stepWait, h},
		{"no Pod, and a phase that somebody has edited", example(withPhase(v1.AtRunning)), nil, -h, stepWait, h},
		{"no Pod, and a later schedule", example(running, withSchedule("2099-01-01T00:00:00Z")), nil, 0, stepCreate, 0},
		{"no Pod past the deadline", limited, nil, m, stepMiss, 0},
		{"no Pod after a failure", retried(), nil, h, stepCreate, 0},
		{"the Pod of somebody else", once, pod(unowned), 0, stepConflict, 0},
		{"the command runs", once, pod(), h, stepWatch, 0},
		{"the command runs in attempt 2", retried(), pod(withAttempt("1")), h, stepWatch, 0},
		{"the command runs in a Pod that is being deleted", once, pod(terminating), h, stepWatch, 0},
		{"the command without a node", once, pod(unschedulable), 20 * s, stepWatch, 40 * s},
		{"the command without a node before a deadline", limited, pod(unschedulable), 20*s + 1, stepWatch, 40*s - 1},
		{"the command runs before its deadline", limited, pod(), 20 * s, stepWatch, 40 * s},
		{"the command with the longest deadline", longest, pod(), 0, stepWatch, math.MaxInt64 / s * s},
		{"the command runs past its deadline", limited, pod(), m, stepStop, 0},
		{"the kubelet is ending the command", limited, killed, 80 * s, stepWatch, 40 * s},
		{"the kubelet gives the command the grace period of its Pod", limited, patient, 2 * m, stepWatch, 90 * s},
		{"the kubelet does not end the command in 30 s after the grace period", limited, patient, 210 * s, stepStop, 0},
		{"the kubelet has not started the command", limited, notYet, 80 * s, stepStop, 0},
		{"the kubelet does not end the command in a minute", limited, killed, 2 * m, stepStop, 0},

		{"the command succeeded", once, pod(exited(0)), h, stepComplete, 0},
		{"the command succeeded in attempt 2", retried(), pod(exited(0), withAttempt("1")), h, stepComplete, 0},
		{"the command succeeded before its deadline", limited, pod(exited(0)), h, stepComplete, 0},
		{"the command succeeded before its Pod was ended", late, beside(0), h, stepComplete, 0},
		{"the command succeeded in a Pod that somebody limited", once, beside(0), h, stepComplete, 0},
		{"the command ended with 0 due to the deadline", limited, pod(exited(0), endedByDeadline), h, stepExceed, 0},
		{"the operator ended the command at the deadline", limited, pod(exited(137), terminating), h, stepExceed, 0},
		{"the command failed before its Pod was ended", late, beside(3), h, stepFail, 0},
		{"the command failed", once, pod(exited(3)), h, stepFail, 0},
		{"the command failed in a Pod with a deadline", once, pod(exited(137), endedByDeadline), h, stepFail, 0},
		{"the command failed, and backoffLimit was lowered", lowered, pod(exited(3)), h, stepFail, 0},
		{"the command failed in attempt 2", retried(), pod(exited(3), withAttempt("1")), h, stepFail, 0},

		{"a failure with an attempt left", twice, pod(exited(3)), m, stepCount, 0},
		{"a failure that is observed after the delay", twice, pod(exited(3)), h, stepCount, 0},
		{"a failure of a Pod that is being deleted", twice, pod(exited(143), terminating), h, stepCount, 0},
		{"a stored failure", retried(), pod(exited(3)), 69 * s, stepDelay, s},
		{"a stored failure, before the deadline", retried(withActiveDeadline(65)), pod(exited(3)), m, stepDelay, 5 * s},
		{"an eviction that is stored", retried(), pod(evicted), 69 * s, stepDelay, s},
		{"a rejection by the node that is stored", retried(), pod(rejectedByNode), s, stepDelay, 9 * s},
		{"a stored failure, after the delay", retried(), pod(exited(3)), 70 * s, stepReplace, 0},
		{"a stored failure, of a Pod that is being deleted", retried(), pod(exited(3), terminating), h, stepReplace, 0},
		{"a stored failure, past the deadline", retried(withActiveDeadline(60)), pod(exited(3)), 65 * s, stepGiveUp, 0},
		{"a failure, past the deadline", limitedTwice, pod(exited(3)), 65 * s, stepGiveUp, 0},
		{"a Pod that was deleted by force a while ago", twice, pod(forced), 2 * m, stepCount, 0},
		{"a Pod that was deleted by force a moment ago", once, pod(forced), 80 * s, stepWatch, 40 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			var others []runtime.Object
			if c.pod != nil {
				others = append(others, c.pod)
			}
			f := newFixture(t, c.at, others...)
			f.Clock.SetTime(noon.Add(c.now))
			f.Observe()
			observed, err := f.Pipeline.Reconciler.(*reconciler).commands.Observe(t.Context(), c.at)
			if err != nil {
				t.Fatal(err)
			}
			next, again := decide(c.at, observed, f.Clock.Now())
			controllertest.Equal(t, "step", c.want, next)
			controllertest.Equal(t, "time until it can change", c.again, again)
		})
	}
}
