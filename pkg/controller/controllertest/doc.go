// Package controllertest is what the tests of all kinds share. They come in one
// shape: objects in; writes, status and events out.
//
//	Load      puts objects into the caches
//	Drain     runs the keys that wait through a Sync
//	Reconcile fills the caches from fake clientsets and reconciles an object once
//	Run       runs a controller with its informers until the test ends
//	Journal   tells what was written, over all fake clientsets, in order
//	Reads     counts what was read
//	Recorder  tells what events users would see
//	Store     is a cache of which only the resource version matters
package controllertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Equal reports how got differs from want. An empty list equals none.
func Equal[V any](t testing.TB, what string, want, got V, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, append(opts, cmpopts.EquateEmpty())...); diff != "" {
		t.Errorf("%s: wanted (-), got (+):\n%s", what, diff)
	}
}
