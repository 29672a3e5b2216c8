package controller

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestOldRejectionsAreForgotten(t *testing.T) {
	begin := time.Now()
	clk := clocktesting.NewFakePassiveClock(begin)
	rejections := NewRejections[int](clk)
	for i := range 1000 {
		rejections.Note(types.UID(fmt.Sprint(i)), "", 1, errors.New("forbidden"), time.Minute, time.Minute)
	}
	clk.SetTime(begin.Add(time.Hour))
	rejections.Note("new", "", 1, errors.New("forbidden"), time.Minute, time.Minute)
	if n := len(rejections.last); n != 1 {
		t.Errorf("%d rejections are remembered, want 1", n)
	}
}
