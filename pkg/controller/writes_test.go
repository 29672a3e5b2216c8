package controller_test

import (
	"testing"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// TestTrackerObservesWrites shows when the caches have observed the writes for key a.
func TestTrackerObservesWrites(t *testing.T) {
	a, b := keyOf("a"), keyOf("b")
	for name, test := range map[string]struct {
		happens func(tr *controller.Tracker, toys, pods *controllertest.Store)
		want    bool // whether the caches have observed the writes
	}{
		"without a write": {
			func(*controller.Tracker, *controllertest.Store, *controllertest.Store) {}, true,
		},
		"not with a write that the cache lacks": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) { tr.Wrote(a, "Toy", toys, "101") }, false,
		},
		"with a write that the cache has": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "101")
				toys.Set("101")
			}, true,
		},
		"with a newer version in the cache": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "101")
				toys.Set("1000")
			}, true,
		},
		"not with a version in between": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "1000")
				toys.Set("999")
			}, false,
		},
		"with a pending write for another key": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) { tr.Wrote(b, "Toy", toys, "101") }, true,
		},
		"not before the newest of several writes to a type": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "101")
				tr.Wrote(a, "Toy", toys, "103")
				toys.Set("102")
			}, false,
		},
		"not with the newest write missing, although the last write is older": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "103")
				tr.Wrote(a, "Toy", toys, "42")
			}, false,
		},
		"not with a write to one of two types missing": {
			func(tr *controller.Tracker, toys, pods *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "101")
				tr.Wrote(a, "Pod", pods, "102")
				toys.Set("102")
			}, false,
		},
		"a version that is no number holds nothing back": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) { tr.Wrote(a, "Toy", toys, "v101") }, true,
		},
		"a cache that went back in time holds nothing back": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "101")
				toys.Set("7")
			}, true,
		},
		"an object that is gone is forgotten": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "101")
				tr.Forget(a)
			}, true,
		},
		"and only that": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "101")
				tr.Forget(b)
			}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var toys, pods controllertest.Store
			toys.Set("100")
			pods.Set("100")
			tracker := controller.NewTracker()
			test.happens(tracker, &toys, &pods)
			for range 2 { // a call of Observed does not change the result of the next call
				if err := tracker.Observed(a); (err == nil) != test.want {
					t.Errorf("observed: %v, wanted %t", err, test.want)
				}
			}
		})
	}
}

// TestTrackerForgetsObservedWrite uses a store whose version goes back after the store has observed the write.
func TestTrackerForgetsObservedWrite(t *testing.T) {
	var toys controllertest.Store
	toys.Set("100")
	tracker := controller.NewTracker()
	tracker.Wrote(keyOf("a"), "Toy", &toys, "101")
	for _, version := range []string{"101", "100"} {
		toys.Set(version)
		if err := tracker.Observed(keyOf("a")); err != nil {
			t.Fatal(err)
		}
	}
}
