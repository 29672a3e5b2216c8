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
		"observed without a write": {
			func(*controller.Tracker, *controllertest.Store, *controllertest.Store) {}, true,
		},
		"not observed while the cache lacks the write": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) { tr.Wrote(a, "Toy", toys, "101") }, false,
		},
		"observed if the cache has the write": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "101")
				toys.Set("101")
			}, true,
		},
		"observed if the cache has a newer version": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "101")
				toys.Set("1000")
			}, true,
		},
		"not observed if the cache has a version in between": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "1000")
				toys.Set("999")
			}, false,
		},
		"observed with a pending write for another key": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) { tr.Wrote(b, "Toy", toys, "101") }, true,
		},
		"not observed before the newest of several writes to a type": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "101")
				tr.Wrote(a, "Toy", toys, "103")
				toys.Set("102")
			}, false,
		},
		"not observed without the newest write, although the last write is older": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "103")
				tr.Wrote(a, "Toy", toys, "42")
			}, false,
		},
		"not observed without a write to one of two types": {
			func(tr *controller.Tracker, toys, pods *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "101")
				tr.Wrote(a, "Pod", pods, "102")
				toys.Set("102")
			}, false,
		},
		"observed if the version of the write is not a number": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) { tr.Wrote(a, "Toy", toys, "v101") }, true,
		},
		"observed if the version of the cache went back": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "101")
				toys.Set("7")
			}, true,
		},
		"observed after Forget": {
			func(tr *controller.Tracker, toys, _ *controllertest.Store) {
				tr.Wrote(a, "Toy", toys, "101")
				tr.Forget(a)
			}, true,
		},
		"not observed after Forget of another key": {
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
