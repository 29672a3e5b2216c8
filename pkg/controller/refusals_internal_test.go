package controller

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestOldRefusalsAreForgotten(t *testing.T) {
	begin := time.Now()
	clk := clocktesting.NewFakePassiveClock(begin)
	refusals := NewRefusals[int](clk)
	for i := range 1000 {
		refusals.Note(types.UID(fmt.Sprint(i)), "", 1, errors.New("forbidden"), time.Minute, time.Minute)
	}
	clk.SetTime(begin.Add(time.Hour))
	refusals.Note("new", "", 1, errors.New("forbidden"), time.Minute, time.Minute)
	if n := len(refusals.last); n != 1 {
		t.Errorf("%d refusals are remembered, want 1", n)
	}
}
