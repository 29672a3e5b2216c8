package at

import (
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/kinds/internal/runonce"
)

// retryBase and retryLimit bound the delay of a retry, as for a Job: 10 s, 20 s, 40 s … 6 min.
const (
	retryBase  = 10 * time.Second
	retryLimit = 6 * time.Minute
)

// lastYear is the last year, in UTC, that a time in JSON can have, because its year has four digits.
const lastYear = 9999

// scheduledTime parses spec.schedule. An error says what is wrong with it.
func scheduledTime(at *v1.At) (time.Time, error) {
	due, err := time.Parse(time.RFC3339, at.Spec.Schedule)
	if err == nil && (due.UTC().Year() > lastYear || due.UTC().Year() < 1) {
		err = fmt.Errorf("the year must be from 1 to %d", lastYear)
	}
	if err != nil {
		return time.Time{}, messageSchedule.Error(strconv.Quote(at.Spec.Schedule), err)
	}
	return due, nil
}

// expected implements Kind.Expected: an At that has not started is expected to start at its scheduled time. A running
// command has no expected time, because it may take as long as it needs.
func expected(at *v1.At) (from time.Time, ok bool) {
	from, err := scheduledTime(at)
	return from, err == nil && at.Status.Phase != v1.AtRunning && at.Status.Phase != v1.AtDone
}

// missed reports whether startingDeadlineSeconds have passed since the scheduled time.
func missed(at *v1.At, due, now time.Time) bool {
	return at.Spec.StartingDeadlineSeconds != nil && now.After(due.Add(seconds(*at.Spec.StartingDeadlineSeconds)))
}

// remaining returns the time until activeDeadlineSeconds have passed. ok is false if the At has no deadline
// or was not started.
func remaining(at *v1.At, now time.Time) (left time.Duration, ok bool) {
	if at.Spec.ActiveDeadlineSeconds == nil || at.Status.StartTime == nil {
		return 0, false
	}
	return at.Status.StartTime.Add(seconds(*at.Spec.ActiveDeadlineSeconds)).Sub(now), true
}

// exceeded reports whether activeDeadlineSeconds ended the command: the kubelet ended the Pod, or the operator deleted
// the Pod. A Late end does not count if the command ended more than a second before the deadline, beside an injected
// container that ran until the deadline. The tolerance of a second is necessary because the time of the end has whole
// seconds. If the At has no deadline, somebody else has limited the Pod, and exceeded returns false.
func exceeded(at *v1.At, end *runonce.Ending) bool {
	left, limited := remaining(at, end.Time)
	return limited && (end.Late && (left <= time.Second || end.ExitCode == nil) || end.Deleted && left <= 0)
}

// expiry returns the time until a finished At is deleted. ok is false if the operator does not delete it.
func expiry(at *v1.At, now time.Time) (left time.Duration, ok bool) {
	if at.Spec.TTLSecondsAfterFinished == nil || at.Status.CompletionTime == nil {
		return 0, false
	}
	return at.Status.CompletionTime.Add(seconds(int64(*at.Spec.TTLSecondsAfterFinished))).Sub(now), true
}

// retryDelay returns the delay before the next Pod, after the given number of failures.
func retryDelay(failed int32) time.Duration {
	delay := retryBase
	for i := int32(1); i < failed && delay < retryLimit; i++ {
		delay *= 2
	}
	return min(delay, retryLimit)
}

// seconds returns n seconds, or the longest Duration if n is more.
func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(min(n, most)) * time.Second
}

// stamp returns t as the API server stores it: in whole seconds, in UTC.
func stamp(t time.Time) *metav1.Time {
	return &metav1.Time{Time: t.UTC().Truncate(time.Second)}
}
