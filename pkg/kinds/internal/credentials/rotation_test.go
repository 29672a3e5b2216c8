package credentials_test

import (
	"testing"
	"time"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

func TestStepOfRotation(t *testing.T) {
	users := []string{"App a", "App b", "App c", "App d", "App e", "App f"}
	for name, c := range map[string]struct {
		rotated    time.Duration // how long ago the last rotation was; 0 for never
		previous   bool
		users      []string
		request    string
		every      time.Duration
		want       credentials.Step
		waitingFor string
		again      time.Duration // 0 if the resync is soon enough
	}{
		"nothing is due": {request: "new", want: credentials.Rest},
		"the next rotation is not due yet": {
			request: "new", rotated: time.Hour, every: 24 * time.Hour, want: credentials.Rest,
		},
		"the next rotation is due soon": {
			request: "new", rotated: time.Hour, every: time.Hour + time.Minute, want: credentials.Rest, again: time.Minute,
		},
		"a rotation that is due": {want: credentials.Rotate},
		"the previous login works during the grace period": {
			rotated: 9 * time.Minute, previous: true, want: credentials.Rest,
			waitingFor: "the end of the grace period at 2026-03-01T12:01:00Z", again: time.Minute,
		},
		"and afterwards while it has users": {
			rotated: time.Hour, previous: true, users: users[:2], want: credentials.Rest, waitingFor: "App a, App b",
			again: 5 * time.Minute,
		},
		"many users are not all named": {
			rotated: 10 * time.Minute, previous: true, users: users, want: credentials.Rest,
			waitingFor: "App a, App b, App c, App d, App e, others", again: 5 * time.Second,
		},
		"users are checked after a tenth of the wait": {
			rotated: 20 * time.Minute, previous: true, users: users[:1], want: credentials.Rest, waitingFor: "App a",
			again: time.Minute,
		},
		"users of a login that was never rotated": {
			previous: true, users: users[:1], want: credentials.Rest, waitingFor: "App a", again: 5 * time.Minute,
		},
		"then it retires, before the next rotation": {rotated: time.Hour, previous: true, want: credentials.Retire},
		"then the next rotation begins":             {rotated: time.Hour, want: credentials.Rotate},
		"the grace period ends exactly": {
			rotated: 10 * time.Minute, previous: true, want: credentials.Retire,
		},
		"a rotation that was interrupted before the Secret": {previous: true, want: credentials.Retire},
		"a previous login that was given back its login": {
			rotated: 99 * time.Hour, previous: true, request: "new", want: credentials.Retire,
		},
		"a clock that was set back extends the grace period": {
			rotated: -30 * time.Minute, previous: true, want: credentials.Rest,
			waitingFor: "the end of the grace period at 2026-03-01T12:40:00Z",
		},
		"without a previous login, users and grace do not count": {
			rotated: time.Second, users: users, request: "new", want: credentials.Rest,
		},
	} {
		t.Run(name, func(t *testing.T) {
			rotation := credentials.Rotation{
				Schedule: credentials.Schedule{Every: c.every, Grace: 10 * time.Minute, Request: "new"},
				Record:   credentials.Record{Created: created, Request: c.request},
			}
			if c.rotated != 0 {
				rotation.Record.Rotated = now.Add(-c.rotated)
			}
			step := rotation.Step(c.previous, func() []string { return c.users }, now, 5*time.Minute)
			controllertest.Equal(t, "step", c.want, step)
			controllertest.Equal(t, "what it waits for", c.waitingFor, rotation.WaitingFor)
			controllertest.Equal(t, "delay", c.again, rotation.Again(5*time.Minute))
		})
	}
	controllertest.Equal(t, "the list afterwards", "App f", users[5])
}
