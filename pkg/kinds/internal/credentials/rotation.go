package credentials

import (
	"cmp"
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
)

// Recheck is the shortest time until the next step of a rotation.
const Recheck = time.Second

// Rotation is the state of a rotation in one reconcile.
type Rotation struct {
	Schedule Schedule
	Record   Record
	// Previous is the login that was in the connection Secret before the rotation, while it can log in, or "".
	Previous string
	// WaitingFor says what the rotation waits for, or is "".
	WaitingFor string
	// RequeueAfter is the time until the next step of the rotation. Zero means that the time is not known.
	RequeueAfter time.Duration
}

// Step is what a reconcile must do for a rotation.
type Step int

// Steps of a rotation.
const (
	// Rest means that there is nothing to do, or that the rotation waits.
	Rest Step = iota
	// Retire means that the previous login must be made unable to log in.
	Retire
	// Rotate means that clients must get the other login with a new password.
	Rotate
)

// Step returns what a reconcile must do, and sets WaitingFor and RequeueAfter. previous is true if the login that is
// not in the Secret can still log in. users returns the known users of the previous login: see Users. Step calls users
// only after the end of the grace period, and then sets RequeueAfter to at most resync. While the previous login can
// log in, no rotation begins, so that at most two logins exist.
func (r *Rotation) Step(previous bool, users func() []string, now time.Time, resync time.Duration) Step {
	r.WaitingFor, r.RequeueAfter = "", 0
	if ends := r.Schedule.Retires(r.Record); previous && now.Before(ends) {
		r.WaitingFor, r.RequeueAfter = graceUntil(ends), ends.Sub(now)
		return Rest
	}
	if previous {
		using := users()
		if len(using) == 0 {
			return Retire
		}
		r.WaitingFor, r.RequeueAfter = named(using), r.Schedule.UsersRecheck(r.Record, now, resync)
		return Rest
	}
	if r.Schedule.Due(r.Record, now) {
		return Rotate
	}
	if at, ok := r.Schedule.Next(r.Record); ok {
		r.RequeueAfter = at.Sub(now)
	}
	return Rest
}

// maxNamed limits how many users named lists.
const maxNamed = 5

// named returns the names of users as a text. It lists at most five.
func named(users []string) string {
	if len(users) > maxNamed {
		users = append(users[:maxNamed:maxNamed], "others")
	}
	return strings.Join(users, ", ")
}

// graceUntil says that a rotation waits for the end of the grace period.
func graceUntil(end time.Time) string { return messageGrace.With(end.UTC().Format(time.RFC3339)) }

// Confirm reads the owner and its connection Secret from the API server. It returns an error if the owner is being
// deleted, if the schedule has changed, or if the Secret differs from the cached one. Without these checks, a process
// with an outdated cache could retire or replace the login that another process has stored in the Secret. It could also
// rotate for a request that was withdrawn.
func (r *Rotation) Confirm(
	ctx context.Context, owner children.Owner, secrets children.Type[*corev1.Secret], cached *corev1.Secret,
) error {
	if err := owner.ConfirmNotDeleted(); err != nil {
		return err
	}
	current, err := owner.Live()
	if err != nil {
		return err
	}
	live, found, err := secrets.Live(ctx, owner, cached.Name)
	if err == nil && (!found || changed(live, cached) || ScheduleOf(current) != r.Schedule) {
		err = controller.Postpone(Recheck)
	}
	return err
}

func changed(live, cached *corev1.Secret) bool {
	return live.UID != cached.UID || live.ResourceVersion != cached.ResourceVersion
}

// Store writes the connection Secret with the next login and the record of the rotation, which desired returns, in one
// write, and keeps the keys that other clients have added. The precondition of the write is the version of the cached
// Secret, with which the reconcile began.
func (r *Rotation) Store(
	ctx context.Context, owner children.Owner, secrets children.Type[*corev1.Secret], cached *corev1.Secret,
	now time.Time, desired func(Record) *corev1.Secret,
) error {
	record := Record{
		Created: cached.CreationTimestamp.Time, Rotated: now.Truncate(time.Second),
		Request: cmp.Or(r.Schedule.Request, r.Record.Request),
	}
	secrets.Keep = keepOthers
	secrets.Before = func(_ context.Context, live *corev1.Secret) error {
		if changed(live, cached) {
			return controller.Postpone(Recheck)
		}
		return nil
	}
	if _, err := secrets.Update(ctx, owner, desired(record)); err != nil {
		return err
	}
	r.Record, r.WaitingFor = record, graceUntil(r.Schedule.Retires(record))
	return nil
}

// Status returns status.credentials of an object whose database owner owns, and whose connection Secret has login. It
// returns nil if spec is nil and nothing was rotated.
func (r *Rotation) Status(spec *v1alpha1.CredentialsSpec, owner, login string) *v1alpha1.CredentialsStatus {
	if spec == nil && r.Record.Rotated.IsZero() && r.WaitingFor == "" && login == owner {
		return nil
	}
	status := &v1alpha1.CredentialsStatus{Username: login, PreviousUsername: r.Previous, WaitingFor: r.WaitingFor}
	if !r.Record.Rotated.IsZero() {
		status.LastRotationTime = &metav1.Time{Time: r.Record.Rotated}
	}
	if at, ok := r.Schedule.Next(r.Record); ok {
		status.NextRotationTime = &metav1.Time{Time: at}
	}
	return status
}

// Again returns the time until the next step of the rotation, at least Recheck, or 0 if the resync is early enough. The
// time of the resync varies by 10 %.
func (r *Rotation) Again(resync time.Duration) time.Duration {
	if r.RequeueAfter == 0 || r.RequeueAfter > resync+resync/10 {
		return 0
	}
	return max(r.RequeueAfter, Recheck)
}
