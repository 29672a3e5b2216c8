// Package controllertest has the helpers that the tests of all kinds share. Such a test puts objects in,
// and checks the writes, the status and the Events.
//
//	Load      puts objects into a cache
//	Drain     reconciles the keys in a queue
//	Reconcile fills the caches from fake clientsets and reconciles an object once
//	Run       runs a controller with its informers until the test ends
//	Journal   records the writes to several fake clientsets, in order
//	Reads     counts the reads of single objects
//	Recorder  records Events
//	Store     is a cache that has only a resource version
package controllertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Equal fails the test with the difference if got differs from want. An empty list equals nil.
func Equal[V any](t testing.TB, what string, want, got V, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, append(opts, cmpopts.EquateEmpty())...); diff != "" {
		t.Errorf("%s: wanted (-), got (+):\n%s", what, diff)
	}
}
