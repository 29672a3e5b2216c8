package sharded

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestInitialEventsComeFromOwnWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, u, yes := newStream(ofMetadataObjects, &exclusions{}), &upstream{}, true
		join := func(low bool) *reader {
			w, err := s.watch(t.Context(), half(low, false), metav1.ListOptions{
				SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			}, u.open)
			return read(t, w, err)
		}
		end := func(version int) {
			object := object("", version)
			object.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
			u.events.Action(watch.Bookmark, object)
			<-time.After(probation)
			synctest.Wait()
		}
		one := join(true)
		u.send(6, low, high)
		if s.events != nil {
			t.Error("the shard joined before the end of the initial events")
		}
		own := u.events
		if end(7); !own.IsStopped() {
			t.Error("the own watch has not ended")
		}
		another := join(false)
		u.send(6, high)
		end(8)
		u.send(8, low, high)
		one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  7", "BOOKMARK  7", "BOOKMARK  7", "MODIFIED a 8", "BOOKMARK  9")
		another.expect(t, "another", "MODIFIED default 6", "BOOKMARK  6", "BOOKMARK  8", "BOOKMARK  8",
			"MODIFIED default 9", "BOOKMARK  9")
		u.expect(t, "", "7 metadata.namespace!=default", "", "7")
		one.Stop()
		another.Stop()
		if synctest.Wait(); !one.ended || !another.ended || !u.events.IsStopped() {
			t.Error("a watch has not ended")
		}
	})
}

// TestNothingIsLeftOfShardThatStopsEarly stops a watch in each phase before it joins.
func TestNothingIsLeftOfShardThatStopsEarly(t *testing.T) {
	for name, stops := range map[string]func(w watch.Interface, u *upstream){
		"while it reads the initial events": func(w watch.Interface, _ *upstream) { w.Stop() },
		"because its own watch ends":        func(_ watch.Interface, u *upstream) { u.events.Stop() },
		"while the watch of the stream begins": func(w watch.Interface, u *upstream) {
			u.opened = w.Stop
			end := object("", 7)
			end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
			u.events.Action(watch.Bookmark, end)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, u, yes := newStream(ofMetadataObjects, nil), &upstream{}, true
				w, err := s.watch(t.Context(), half(true, false), metav1.ListOptions{SendInitialEvents: &yes}, u.open)
				r := read(t, w, err)
				stops(w, u)
				if synctest.Wait(); !r.ended || !u.events.IsStopped() || s.events != nil || len(s.members) > 0 ||
					len(s.opening) > 0 {
					t.Error("something is left")
				}
			})
		})
	}
}

// TestStoppedMemberGetsNothing stops a member that has missed an event. A later event or bookmark would hide that from
// its informer.
func TestStoppedMemberGetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			w := newMember(newStream(ofMetadataObjects, nil), half(true, false), metav1.ListOptions{})
			r := read(t, w, nil)
			w.Stop()
			synctest.Wait()
			w.send(ofMetadataObjects.bookmark("7"), time.Now().Add(sendPatience))
			r.expect(t, "the informer")
			close(w.some)
		}
	})
}
