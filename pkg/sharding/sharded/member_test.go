package sharded

import (
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// initial begins the watch of a shard that starts with initial events.
func (u *upstream) initial(t *testing.T, low bool) *reader {
	t.Helper()
	w, err := u.stream().watch(t.Context(), u.half(low), metav1.ListOptions{
		SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}, u.open)
	return read(t, w, err)
}

func TestInitialEventsComeFromOwnWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream()
		one := u.initial(t, true)
		u.send(6, low, high)
		own := u.events
		u.endInitialEvents(8)
		one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  7", "BOOKMARK  8", "BOOKMARK  8")
		if !one.ended || !own.IsStopped() || u.stream().events != nil {
			t.Error("the own watch has not ended after the initial events, or the shard has joined the stream")
		}
		one = u.join(t, true, "8")
		u.send(9, low)
		one.expect(t, "one", "MODIFIED a 9", "BOOKMARK  9")
		u.expect(t, "", "8 metadata.namespace!=default")
	})
}

// TestNothingIsLeftOfShardThatStopsEarly stops a watch before the end of its initial events.
func TestNothingIsLeftOfShardThatStopsEarly(t *testing.T) {
	for name, stops := range map[string]func(w watch.Interface, u *upstream){
		"the informer stops its watch": func(w watch.Interface, _ *upstream) { w.Stop() },
		"its own watch ends":           func(_ watch.Interface, u *upstream) { u.events.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream()
				r := u.initial(t, true)
				stops(r, u)
				if synctest.Wait(); !r.ended || !u.events.IsStopped() || u.stream().events != nil {
					t.Error("a watch has not ended")
				}
			})
		})
	}
}
