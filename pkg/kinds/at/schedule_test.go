package at

import (
	"math"
	"testing"
	"time"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

const (
	hour      = time.Hour
	runsAt    = "The command runs at 2030-02-10T12:00:00Z."
	resume    = "Set spec.suspend to false to let the command run."
	runs      = "Pod example-pod runs the command."
	isRunning = "Normal Running default/example: " + runs
	isRunnow  = "Running, scheduled 12:00:00, started 12:00:00, example-pod"
)

func TestSchedules(t *testing.T) {
	for written, want := range map[string]time.Time{
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
		t.Run(written, func(t *testing.T) {
			got, err := scheduledTime(example(schedule(written)))
			if !got.Equal(want) || (err != nil) != want.IsZero() {
				t.Errorf("wanted %v, got %v, %v", want, got, err)
			}
		})
	}
}

func TestAPendingAt(t *testing.T) {
	tell(t, map[string]story{
		"before its time waits exactly as long as is left": {
			at: example(), now: -hour, after: hour,
			writes: []string{status}, events: []string{"Normal Scheduled default/example: " + runsAt},
			status: "Pending, scheduled 12:00:00", conditions: notReady("Scheduled", runsAt),
		},
		"that is settled writes nothing": {
			at: example(pending), now: -time.Millisecond, after: time.Millisecond, status: "Pending, scheduled 12:00:00",
		},
		"at its time stores the start, and makes the Pod in the next pass": {
			at: example(pending), writes: []string{status}, events: []string{isRunning},
			status: isRunnow, conditions: notReady("Running", runs), next: []string{writePod},
		},
		"whose schedule has long passed runs now": {
			at: example(schedule("1999-01-01T00:00:00Z")), writes: []string{status}, events: []string{isRunning},
			status: "Running, scheduled 00:00:00, started 12:00:00, example-pod", conditions: notReady("Running", runs), next: []string{writePod},
		},
		"that changed on the server meanwhile is not started": {
			at: example(pending), onServer: newer, err: "the status of default/example",
			writes: []string{status}, status: "Pending, scheduled 12:00:00", next: []string{status},
		},
		"whose schedule moved to later waits anew": {
			at: example(pending, schedule("2030-02-10T14:00:00Z")), after: 2 * hour, writes: []string{status},
			status: "Pending, scheduled 14:00:00", conditions: notReady("Scheduled", "The command runs at 2030-02-10T14:00:00Z."),
		},
		"whose schedule moved to earlier runs now": {
			at: example(pending, schedule("2030-02-10T10:00:00Z")), now: -hour, writes: []string{status}, events: []string{isRunning},
			status: "Running, scheduled 10:00:00, started 11:00:00, example-pod", conditions: notReady("Running", runs), next: []string{writePod},
		},
		"whose schedule cannot be read is stuck until it is edited": {
			at: example(pending, schedule("tomorrow")), err: `spec.schedule "tomorrow" is not an instant in RFC 3339, such as 2026-02-10T20:30:00Z; edit it`,
			writes: []string{status}, status: "Pending, scheduled 12:00:00",
			events:     []string{"Warning InvalidSchedule default/example: " + unreadable},
			conditions: stuck("InvalidSchedule", unreadable),
		},
		"whose schedule can be read again goes on": {
			at: example(schedule("tomorrow"), func(at *v1.At) { at.Status.Phase = v1.AtPending }, schedule("2030-02-10T13:00:00Z")), after: hour,
			writes: []string{status}, events: []string{"Normal Scheduled default/example: The command runs at 2030-02-10T13:00:00Z."},
			status: "Pending, scheduled 13:00:00", conditions: notReady("Scheduled", "The command runs at 2030-02-10T13:00:00Z."),
		},
		"in a phase that there is not is Pending": {
			at: example(func(at *v1.At) { at.Status.Phase = "Sleeping" }), now: -hour, after: hour,
			writes: []string{status}, events: []string{"Normal Scheduled default/example: " + runsAt},
			status: "Pending, scheduled 12:00:00", conditions: notReady("Scheduled", runsAt),
		},
	})
}

const unreadable = `spec.schedule "tomorrow" is not an instant in RFC 3339, such as 2026-02-10T20:30:00Z; edit it: parsing time "tomorrow" as "2006-01-02T15:04:05Z07:00": cannot parse "tomorrow" as "2006"`

func TestSuspension(t *testing.T) {
	held := []string{"Degraded=False AsExpected", "Progressing=False Suspended: " + resume, "Ready=False Suspended: " + resume}
	tell(t, map[string]story{
		"holds the command back when its time has come": {
			at: example(pending, suspend(true)), now: hour, writes: []string{status}, status: "Pending, scheduled 12:00:00",
			events: []string{"Normal Suspended default/example: " + resume}, conditions: held,
		},
		"holds the command back past its starting deadline, too": {
			at: example(suspend(true), pending, startWithin(5)), now: hour, status: "Pending, scheduled 12:00:00",
		},
		"that is taken away before the time lets it wait": {
			at: example(suspend(true), pending, suspend(false)), now: -hour, after: hour, writes: []string{status}, status: "Pending, scheduled 12:00:00",
			events: []string{"Normal Scheduled default/example: " + runsAt}, conditions: notReady("Scheduled", runsAt),
		},
		"that is taken away after the time lets it run": {
			at: example(suspend(true), pending, suspend(false)), now: hour, writes: []string{status}, events: []string{isRunning},
			status: "Running, scheduled 12:00:00, started 13:00:00, example-pod", conditions: notReady("Running", runs), next: []string{writePod},
		},
		"that is taken away past the starting deadline fails it": {
			at: example(suspend(true), pending, suspend(false), startWithin(5)), now: hour, writes: []string{status},
			status: "Done, scheduled 12:00:00, completed 13:00:00", events: []string{"Warning DeadlineExceeded default/example: " + late},
			conditions: failedFor("DeadlineExceeded", late),
		},
		"does not hold back a command that has started": {
			at: example(running, suspend(true)), cached: list(pod(ended(0))), now: hour, writes: []string{status},
			status: "Done, scheduled 12:00:00, started 12:00:00, completed 12:01:00, example-pod, exit 0",
			events: []string{"Normal CommandSucceeded default/example: " + ended0}, conditions: complete(ended0),
		},
	})
}

const (
	late   = "The command was not started within 5 s of its schedule."
	ended0 = "The command ended with exit code 0."
	ended3 = "The command ended with exit code 3."
)

func TestTheStartingDeadline(t *testing.T) {
	missed := story{
		writes: []string{status}, events: []string{"Warning DeadlineExceeded default/example: " + late},
		conditions: failedFor("DeadlineExceeded", late), status: "Done, scheduled 12:00:00, completed 12:00:05",
	}
	missed.at, missed.now = example(startWithin(5)), 5*time.Second+1
	tell(t, map[string]story{
		"has not passed while it passes": {
			at: example(startWithin(5)), now: 5 * time.Second, writes: []string{status}, events: []string{isRunning},
			status: "Running, scheduled 12:00:00, started 12:00:05, example-pod", conditions: notReady("Running", runs), next: []string{writePod},
		},
		"has passed a moment later, and no Pod is made": missed,
		"beyond all time never passes": {
			at: example(startWithin(math.MaxInt64)), now: 200 * 365 * 24 * hour, writes: []string{status}, events: []string{isRunning},
			status: "Running, scheduled 12:00:00, started 12:00:00, example-pod", conditions: notReady("Running", runs), next: []string{writePod},
		},
		"does not count for a start that is stored": {
			at: example(running, startWithin(5)), now: fresh, begun: true, writes: []string{writePod}, status: isRunnow,
		},
	})
}

func TestLongTimesAreCut(t *testing.T) {
	for n, want := range map[int64]time.Duration{
		0: 0, 1: time.Second, math.MaxInt32: math.MaxInt32 * time.Second, math.MaxInt64: math.MaxInt64 / time.Second * time.Second,
	} {
		controllertest.Equal(t, "seconds", want, seconds(n))
	}
}
