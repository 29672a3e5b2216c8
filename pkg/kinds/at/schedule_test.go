package at

import (
	"math"
	"strconv"
	"testing"
	"time"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// checkClock is the result of a reconcile that waits for longer than clockCheck.
var checkClock = controller.Result{RequeueAfter: clockCheck, Check: true}

func TestScheduledTime(t *testing.T) {
	for schedule, want := range map[string]time.Time{
		"2030-02-10T12:00:00Z":          noon,
		"2030-02-10T12:00:00+00:00":     noon,
		"2030-02-10T13:00:00+01:00":     noon,
		"2030-02-10T06:30:00-05:30":     noon,
		"2030-02-11T02:00:00+14:00":     noon,
		"2030-02-10T12:00:00.25Z":       noon.Add(time.Second / 4),
		"9999-12-31T23:59:59Z":          time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		"":                              {},
		"tomorrow":                      {},
		"2030-02-10T12:00:00":           {},
		"2030-02-30T12:00:00Z":          {},
		"2030-02-10T12:00:00+25:00":     {},
		"9999-12-31T23:59:59-01:00":     {},
		"0000-06-01T00:00:00Z":          {},
		"2030-02-10T12:00:00Z or later": {},
	} {
		t.Run("schedule "+strconv.Quote(schedule), func(t *testing.T) {
			got, err := scheduledTime(example(withSchedule(schedule)))
			if !got.Equal(want) || (err != nil) != want.IsZero() {
				t.Errorf("wanted %v, got %v, %v", want, got, err)
			}
		})
	}
}

func TestReconcilePendingAt(t *testing.T) {
	const message2pm, message1pm = "The command runs at 2030-02-10T14:00:00Z.", "The command runs at 2030-02-10T13:00:00Z."
	runCases(t, map[string]reconcileCase{
		"a new At is checked each minute before its scheduled time": {
			at: example(), now: -time.Hour, result: checkClock, writes: []string{updateStatus}, events: []string{scheduledEvent},
			status: pendingStatus(), conditions: progressingConditions("Scheduled", scheduledMessage),
		},
		"a pending At waits exactly until its scheduled time and writes nothing": {
			at: example(pending), now: -time.Millisecond, result: controller.Result{RequeueAfter: time.Millisecond},
		},
		"the start is stored at the scheduled time, before the Pod is created": {
			at: example(pending), result: controller.Continue(), writes: []string{updateStatus}, events: []string{runningEvent},
			status: runningStatus(), conditions: progressingConditions("Running", runningMessage), next: []string{createPod},
		},
		"an At that is newer than the cached one is not started": {
			at: example(pending), unobserved: func(f fixture) { f.Change(touchAt) },
			err:    "writing the status of At default/example",
			writes: []string{updateStatus}, next: []string{updateStatus},
		},
		"an At with a later schedule waits again": {
			at: example(pending, withSchedule("2030-02-10T14:00:00Z")), result: checkClock, writes: []string{updateStatus},
			status: scheduledStatus(noon.Add(2 * time.Hour)), conditions: progressingConditions("Scheduled", message2pm),
		},
		"an At with an earlier schedule runs now": {
			at: example(pending, withSchedule("2030-02-10T10:00:00Z")), now: -time.Hour, result: controller.Continue(),
			writes: []string{updateStatus}, events: []string{runningEvent},
			status:     runningStatus(scheduledAt(noon.Add(-2*time.Hour)), startedAt(noon.Add(-time.Hour))),
			conditions: progressingConditions("Running", runningMessage), next: []string{createPod},
		},
		"an At with an invalid schedule is Stalled until it is edited": {
			at:     example(pending, withSchedule("tomorrow")),
			err:    `spec.schedule "tomorrow" is not a time in RFC 3339: parsing time`,
			writes: []string{updateStatus}, events: []string{"Warning InvalidSchedule default/example: " + invalidSchedule},
			status: pendingStatus(), conditions: stalledConditions("InvalidSchedule", invalidSchedule),
		},
		"an At whose schedule was corrected waits for it": {
			at: example(withPhase(v1.AtPending), withSchedule("2030-02-10T13:00:00Z")), result: checkClock,
			writes: []string{updateStatus}, events: []string{"Normal Scheduled default/example: " + message1pm},
			status: scheduledStatus(noon.Add(time.Hour)), conditions: progressingConditions("Scheduled", message1pm),
		},
	})
}

const invalidSchedule = `spec.schedule "tomorrow" is not a time in RFC 3339: parsing time "tomorrow" ` +
	`as "2006-01-02T15:04:05Z07:00": cannot parse "tomorrow" as "2006". ` +
	`Change the schedule to a time such as 2026-02-10T20:30:00Z.`

// scheduledStatus returns the status of an At that waits until t, without conditions.
func scheduledStatus(t time.Time) *v1.AtStatus {
	status := pendingStatus()
	scheduledAt(t)(status)
	return status
}

func TestSuspension(t *testing.T) {
	const message = "The command does not run while spec.suspend is true. To let the command run, set spec.suspend to " +
		"false."
	runCases(t, map[string]reconcileCase{
		"a suspended At is not started at its scheduled time": {
			at: example(pending, withSuspend(true)), now: time.Hour, writes: []string{
				updateStatus,
			}, events: []string{"Normal Suspended default/example: " + message},
			status: pendingStatus(), conditions: []string{
				"Degraded=False AsExpected", "Progressing=False Suspended: " + message, "Ready=False Suspended: " + message,
			},
		},
		"a suspended At does not fail past its starting deadline": {
			at: example(withSuspend(true), pending, withStartingDeadline(5)), now: time.Hour,
		},
		"a resumed At waits for its scheduled time": {
			at: example(withSuspend(true), pending, withSuspend(false)), now: -time.Hour, result: checkClock,
			writes: []string{updateStatus},
			events: []string{scheduledEvent}, status: pendingStatus(),
			conditions: progressingConditions("Scheduled", scheduledMessage),
		},
		"a resumed At fails past its starting deadline": {
			at: example(withSuspend(true), pending, withSuspend(false), withStartingDeadline(5)), now: time.Hour,
			result: controller.Continue(),
			writes: []string{updateStatus}, events: []string{
				"Warning DeadlineExceeded default/example: " + startingDeadlineMessage,
			},
			status:     doneStatus(neverStarted, completedAt(noon.Add(time.Hour))),
			conditions: failedConditions("DeadlineExceeded", startingDeadlineMessage),
		},
	})
}

func TestStartingDeadline(t *testing.T) {
	runCases(t, map[string]reconcileCase{
		"an At is started exactly at its starting deadline": {
			at: example(withStartingDeadline(5)), now: 5 * time.Second, result: controller.Continue(), writes: []string{
				updateStatus,
			},
			events: []string{runningEvent}, status: runningStatus(startedAt(noon.Add(5 * time.Second))),
			conditions: progressingConditions("Running", runningMessage), next: []string{createPod},
		},
		"an At fails without a Pod right after its starting deadline": {
			at: example(withStartingDeadline(5)), now: 5*time.Second + 1, result: controller.Continue(),
			writes:     []string{updateStatus},
			events:     []string{"Warning DeadlineExceeded default/example: " + startingDeadlineMessage},
			status:     doneStatus(neverStarted, completedAt(noon.Add(5*time.Second))),
			conditions: failedConditions("DeadlineExceeded", startingDeadlineMessage),
		},
		"an At whose start is stored ignores its starting deadline": {
			at: example(running, withStartingDeadline(5)), now: fresh, startedHere: true, writes: []string{createPod},
		},
	})
}

func TestSecondsLimitsLongDurations(t *testing.T) {
	for n, want := range map[int64]time.Duration{
		0: 0, 1: time.Second, math.MaxInt32: math.MaxInt32 * time.Second,
		math.MaxInt64: math.MaxInt64 / time.Second * time.Second,
	} {
		controllertest.Equal(t, "seconds", want, seconds(n))
	}
}
