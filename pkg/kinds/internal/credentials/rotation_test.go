package credentials_test

import (
	"testing"
	"time"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

func TestRotationAwait(t *testing.T) {
	users := []string{"App a", "App b", "App c", "App d", "App e", "App f"}
	for name, c := range map[string]struct {
		step       credentials.Step
		using      []string
		waitingFor string
		again      time.Duration // 0 if the resync is soon enough
	}{
		"the end of the grace period": {step: credentials.AwaitGrace,
			waitingFor: "the end of the grace period at 2026-03-01T12:01:00Z", again: time.Minute},
		"a few users": {step: credentials.AwaitUsers, using: users[:2],
			waitingFor: "App a, App b", again: 5 * time.Second},
		"many users": {step: credentials.AwaitUsers, using: users,
			waitingFor: "App a, App b, App c, App d, App e, others", again: 5 * time.Second},
		"a rotation in a day": {step: credentials.Rest},
	} {
		t.Run(name, func(t *testing.T) {
			rotation := credentials.Rotation{
				Schedule: credentials.Schedule{Every: 24 * time.Hour, Grace: time.Minute}, Record: credentials.Record{Rotated: now},
			}
			rotation.Await(c.step, c.using, now, 5*time.Minute)
			controllertest.Equal(t, "what it waits for", c.waitingFor, rotation.WaitingFor)
			controllertest.Equal(t, "delay", c.again, rotation.Again(5*time.Minute))
		})
	}
	controllertest.Equal(t, "the list afterwards", "App f", users[5])
}
