// Package controllertest helps to test kinds with fake clientsets. A test of a kind stores
// objects, reconciles them, and checks the writes, the status and the Events.
//
//	Load      puts objects into a cache
//	Drain     reconciles the keys in a queue
//	Reconcile fills the caches from fake clientsets and reconciles an object once
//	Run       runs a controller with its informers until the test ends
//	Journal   records the writes to several fake clientsets in order, and the GET requests in order
//	Reads     counts the reads of single objects
//	Recorder  records Events
//	Server    makes fake clientsets count versions and generations, and check preconditions
//	Store     is a cache that has only a resource version
package controllertest

import (
	"strings"
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

// ErrorContains fails the test unless err contains want. An empty want means that err must be nil.
func ErrorContains(t testing.TB, want string, err error) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("wanted an error that contains %q, got %v", want, err)
	}
}
