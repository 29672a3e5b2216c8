package controller_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"windlass.dev/windlass/pkg/controller"
)

const (
	shortest = time.Second
	longest  = 5 * time.Minute
)

func TestRejectionDelaysSameAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		object  types.UID
		part    string
		attempt int
		after   time.Duration
		delayed bool
	}{
		"the same attempt":                        {object: "a", part: "web", attempt: 1, delayed: true},
		"the same attempt, just before it is due": {object: "a", part: "web", attempt: 1, after: shortest - 1, delayed: true},
		"the same attempt, when it is due":        {object: "a", part: "web", attempt: 1, after: shortest},
		"another attempt":                         {object: "a", part: "web", attempt: 2},
		"another part":                            {object: "a", part: "db", attempt: 1},
		"another object":                          {object: "b", part: "web", attempt: 1},
	} {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakePassiveClock(epoch)
			rejections := controller.NewRejections[int](clk)
			want := rejections.Note("a", "web", 1, errors.New("forbidden"), shortest, longest)
			clk.SetTime(epoch.Add(test.after))
			got, delayed := rejections.Recent(test.object, test.part, test.attempt)
			if delayed != test.delayed || delayed && got != want {
				t.Errorf("delayed: wanted %v, got %v by %v", test.delayed, delayed, got)
			}
		})
	}
}

func TestRejectionIsForgottenAfterOtherAttempt(t *testing.T) {
	rejections := controller.NewRejections[int](clocktesting.NewFakePassiveClock(epoch))
	rejections.Note("a", "", 1, errors.New("forbidden"), longest, longest)
	if _, delayed := rejections.Recent("a", "", 2); delayed {
		t.Error("another attempt is delayed")
	}
	if _, delayed := rejections.Recent("a", "", 1); delayed {
		t.Error("the first attempt is delayed although another one came between")
	}
}

func TestDelayOfRejectedAttemptGrows(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(epoch)
	rejections := controller.NewRejections[int](clk)
	note := func(attempt int) time.Duration {
		return rejections.Note("a", "", attempt, errors.New("forbidden"), shortest, longest).Until.Sub(clk.Now())
	}
	for _, step := range []struct {
		at, want time.Duration
	}{
		{0, time.Second}, {time.Second, time.Second}, {2 * time.Second, 2 * time.Second}, {
			4 * time.Second, 4 * time.Second,
		}, {time.Hour, shortest},
	} {
		clk.SetTime(epoch.Add(step.at))
		if got := note(1); got != step.want {
			t.Errorf("after %v the delay is %v, want %v", step.at, got, step.want)
		}
	}
	for at := time.Hour; at < 2*time.Hour; at += longest {
		clk.SetTime(epoch.Add(at))
		note(1)
	}
	if got := note(1); got != longest {
		t.Errorf("after an hour of rejections the delay is %v, want %v", got, longest)
	}
	if got := note(2); got != shortest {
		t.Errorf("the delay of another attempt is %v, want %v", got, shortest)
	}
}
