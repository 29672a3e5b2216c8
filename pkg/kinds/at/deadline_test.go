package at

import (
	"math"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestPodDeadlineIsTimeThatIsLeft(t *testing.T) {
	for left, want := range map[time.Duration]int64{
		time.Nanosecond: 1, time.Second: 1, 1500 * time.Millisecond: 2, time.Hour: 3600, math.MaxInt64: math.MaxInt32,
	} {
		controllertest.Equal(t, left.String(), ptr.To(want), podDeadline(left))
	}
}

func TestReconcileCreatesPodWithDeadline(t *testing.T) {
	f := newFixtureAtNoon(t, withActiveDeadline(60))
	f.settle()
	controllertest.Equal(t, "activeDeadlineSeconds", ptr.To[int64](60), f.onlyPod().Spec.ActiveDeadlineSeconds)
}
