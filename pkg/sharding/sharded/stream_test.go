package sharded

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// joiner begins the watch of a shard: of the namespaces with low or with high hashes, from a version on.
type joiner func(low bool, version string) *reader

func TestShardsShareStream(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, s *stream, u *upstream, join joiner){
		"each shard gets its events, and all bookmarks": func(t *testing.T, _ *stream, u *upstream, join joiner) {
			one, another := join(true, "5"), join(false, "5")
			u.send(6, low, high)
			one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  7")
			another.expect(t, "another", "MODIFIED default 7", "BOOKMARK  7")
			u.expect(t, "5")
		},
		"a shard that is behind gets earlier events, which the others do not get again": func(
			t *testing.T, _ *stream, u *upstream, join joiner,
		) {
			one := join(true, "5")
			u.send(6, low, high, low)
			one.expect(t, "one", "MODIFIED a 6", "MODIFIED a 8", "BOOKMARK  8")
			former := u.events
			another := join(false, "6")
			if synctest.Wait(); !former.IsStopped() {
				t.Error("the former watch has not been stopped")
			}
			u.send(7, high, low, high, low)
			one.expect(t, "one", "MODIFIED a 10", "BOOKMARK  10")
			another.expect(t, "another", "MODIFIED default 7", "MODIFIED default 9", "BOOKMARK  10")
			u.expect(t, "5", "6")
		},
		"a shard whose objects the watch excludes": func(t *testing.T, s *stream, u *upstream, join joiner) {
			s.exclusions.discarded(object(high, 1))
			one := join(true, "5")
			u.send(6, low)
			another := join(false, "8")
			u.send(7, high, high, high)
			one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  6", "BOOKMARK  9")
			another.expect(t, "another", "MODIFIED default 9", "BOOKMARK  9")
			u.expect(t, "5 metadata.namespace!=default", "6")
		},
		"shards that return after the end of a watch share the next one": func(
			t *testing.T, s *stream, u *upstream, join joiner,
		) {
			s.exclusions.discarded(object(high, 1))
			s.exclusions.discarded(object(low, 1))
			join(true, "5")
			join(false, "5")
			u.events.Stop()
			synctest.Wait()
			join(false, "5")
			join(true, "5")
			u.expect(t, "5 metadata.namespace!=default", "5", "5")
		},
		"what all shards discard is excluded later": func(t *testing.T, _ *stream, u *upstream, join joiner) {
			join(true, "5")
			u.send(6, low, high)
			u.events.Stop()
			synctest.Wait()
			join(true, "7")
			u.expect(t, "5", "7 metadata.namespace!=default")
		},
		"a shard that is ahead does not get earlier events": func(t *testing.T, _ *stream, u *upstream, join joiner) {
			join(true, "5")
			another := join(false, "7")
			u.send(6, high, high, high)
			another.expect(t, "another", "MODIFIED default 8", "BOOKMARK  8")
			u.expect(t, "5")
		},
		"shards watch again when the API server ends the watch": func(t *testing.T, _ *stream, u *upstream, join joiner) {
			one, another := join(true, "5"), join(false, "5")
			u.events.Modify(object(low, 6))
			u.events.Stop()
			one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  6")
			another.expect(t, "another", "BOOKMARK  6") // it watches again after that version, not after its own
			if !one.ended || !another.ended {
				t.Error("a watch has not ended")
			}
			one = join(true, "6")
			u.send(7, low)
			one.expect(t, "one", "MODIFIED a 7", "BOOKMARK  7")
			u.expect(t, "5", "6")
		},
		"an error ends the watches of all shards": func(t *testing.T, s *stream, u *upstream, join joiner) {
			one, another := join(true, "5"), join(false, "5")
			u.events.Action(watch.Error, &metav1.Status{Reason: metav1.StatusReasonExpired})
			one.expect(t, "one", "ERROR")
			another.expect(t, "another", "ERROR")
			if !one.ended || !another.ended || !u.events.IsStopped() || s.events != nil {
				t.Error("a watch, or the stream, has not ended")
			}
		},
		"a shard that is ahead gets no event again from another watch": func(
			t *testing.T, _ *stream, u *upstream, join joiner,
		) {
			join(true, "5")
			ahead := join(true, "9")
			u.send(6, low)
			join(false, "5")
			u.send(6, low, low, low, low, low)
			ahead.expect(t, "the shard", "MODIFIED a 10", "BOOKMARK  10")
		},
		"an error of another watch ends only the watch of the shard that needs it": func(
			t *testing.T, s *stream, u *upstream, join joiner,
		) {
			one := join(true, "5")
			u.send(6, low)
			shared := u.events
			begin := func(fails func()) (watch.Interface, error) {
				u.opened = fails
				return s.watch(t.Context(), half(false, false), metav1.ListOptions{ResourceVersion: "5"}, u.open)
			}
			tooOld := &metav1.Status{Reason: metav1.StatusReasonExpired}
			_, err := begin(func() { u.events.Action(watch.Error, tooOld) })
			if synctest.Wait(); !apierrors.IsResourceExpired(err) || !u.events.IsStopped() {
				t.Errorf("the error of the watch is %v", err)
			}
			w, err := begin(func() { u.events.Stop() })
			another := read(t, w, err)
			if another.expect(t, "another"); !another.ended {
				t.Error("the watch has not ended")
			}
			u.events = shared
			u.send(7, low)
			one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  6", "MODIFIED a 7", "BOOKMARK  7")
		},
		"a shard joins that needs what the next watch excludes": func(t *testing.T, s *stream, u *upstream, join joiner) {
			one := join(true, "5")
			u.send(6, low)
			s.exclusions.discarded(object(high, 1))
			var another *reader
			u.opened = func() {
				u.opened = nil
				another = join(false, "6") // the present watch has what it needs
			}
			join(true, "5")
			u.send(6, low, high)
			one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  6", "BOOKMARK  7")
			another.expect(t, "another", "MODIFIED default 7", "BOOKMARK  7")
			u.expect(t, "5", "5 metadata.namespace!=default", "5")
		},
		"a shard joins while the watch for another one begins": func(t *testing.T, s *stream, u *upstream, join joiner) {
			join(true, "5")
			u.send(6, low)
			hangs := func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			go func() {
				_, _ = s.watch(t.Context(), half(false, false), metav1.ListOptions{ResourceVersion: "5"}, hangs)
			}()
			synctest.Wait()
			another := join(false, "6")
			u.send(7, high)
			another.expect(t, "another", "MODIFIED default 7", "BOOKMARK  7")
		},
		"only the shard whose version is too old has to list again": func(t *testing.T, _ *stream, u *upstream, join joiner) {
			one := join(true, "5")
			u.send(6, low)
			another := join(false, "5")
			u.events.Action(watch.Error, &metav1.Status{Reason: metav1.StatusReasonExpired})
			another.expect(t, "another", "ERROR")
			one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  6")
			if !one.ended || !another.ended {
				t.Error("a watch has not ended")
			}
			one = join(true, "6")
			u.send(7, low)
			one.expect(t, "one", "MODIFIED a 7", "BOOKMARK  7")
		},
		"an event without a version is an error": func(t *testing.T, _ *stream, u *upstream, join joiner) {
			one := join(true, "5")
			u.events.Modify(&metav1.PartialObjectMetadata{})
			one.expect(t, "one", "ERROR")
		},
		"an event that is older than the one before is an error": func(t *testing.T, _ *stream, u *upstream, join joiner) {
			one := join(true, "5")
			u.send(9, low)
			u.events.Modify(object(low, 8))
			one.expect(t, "one", "MODIFIED a 9", "BOOKMARK  9", "ERROR")
		},
		"a shard without a version has a watch of its own": func(t *testing.T, s *stream, u *upstream, join joiner) {
			one := join(true, "0")
			u.send(6, low)
			one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  6")
			if s.events != nil {
				t.Error("it joined the stream")
			}
		},
		"the watch ends with the last shard": func(t *testing.T, s *stream, u *upstream, join joiner) {
			one, another := join(true, "5"), join(false, "5")
			one.Stop()
			one.Stop()
			u.send(6, high)
			another.expect(t, "another", "MODIFIED default 6", "BOOKMARK  6")
			if another.Stop(); !one.ended {
				t.Error("the first watch has not ended")
			}
			if synctest.Wait(); !another.ended || !u.events.IsStopped() || s.events != nil {
				t.Error("the last watch, or the stream, has not ended")
			}
		},
		"a shard that never receives does not stop others for ever": func(t *testing.T, s *stream, u *upstream, join joiner) {
			one := join(true, "5")
			if _, err := s.watch(t.Context(), half(false, false), metav1.ListOptions{ResourceVersion: "5"}, u.open); err != nil {
				t.Fatal(err)
			}
			u.events.Modify(object(high, 6))
			u.events.Modify(object(low, 7))
			<-time.After(2 * sendPatience)
			one.expect(t, "one", "MODIFIED a 7")
		},
		"a shard waits for all shards that do not receive together": func(t *testing.T, s *stream, u *upstream, join joiner) {
			for range 3 {
				if _, err := s.watch(t.Context(), half(false, false), metav1.ListOptions{ResourceVersion: "5"},
					u.open); err != nil {
					t.Fatal(err)
				}
			}
			one := join(true, "5")
			u.events.Action(watch.Bookmark, object("", 6))
			<-time.After(sendPatience + time.Second)
			one.expect(t, "one", "BOOKMARK  6")
		},
		"a shard can stop while another does not receive": func(t *testing.T, s *stream, u *upstream, join joiner) {
			one := join(true, "5")
			slow, err := s.watch(t.Context(), half(false, false), metav1.ListOptions{ResourceVersion: "5"}, u.open)
			if err != nil {
				t.Fatal(err)
			}
			u.events.Modify(object(high, 6))
			synctest.Wait()
			one.Stop()
			slow.Stop()
			if synctest.Wait(); !one.ended || s.events != nil {
				t.Error("the stream has not ended")
			}
		},
		"a watch that cannot begin leaves the watches of others alone": func(
			t *testing.T, s *stream, u *upstream, join joiner,
		) {
			one := join(true, "5")
			u.send(6, low)
			u.err = errors.New("no")
			if _, err := s.watch(t.Context(), half(false, false), metav1.ListOptions{
				ResourceVersion: "5",
			}, u.open); err == nil || len(s.opening) > 0 {
				t.Errorf("the watch began: %v", err)
			}
			u.send(7, low)
			one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  6", "MODIFIED a 7", "BOOKMARK  7")
		},
		"a shard that stops while its watch begins leaves nothing behind": func(
			t *testing.T, s *stream, u *upstream, _ joiner,
		) {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := s.watch(ctx, half(false, false), metav1.ListOptions{
				ResourceVersion: "5",
			}, func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				cancel()
				return u.open(ctx, options)
			})
			if err == nil || !u.events.IsStopped() || s.events != nil {
				t.Errorf("the watch began: %v", err)
			}
		},
		"a shard can stop while it waits for the watch of another one to begin": func(
			t *testing.T, s *stream, u *upstream, _ joiner,
		) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			hangs := func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			go func() {
				_, _ = s.watch(t.Context(), half(true, false), metav1.ListOptions{ResourceVersion: "5"}, hangs)
			}()
			synctest.Wait()
			time.AfterFunc(time.Second, cancel)
			if _, err := s.watch(ctx, half(false, false), metav1.ListOptions{
				ResourceVersion: "5",
			}, u.open); !errors.Is(err, context.Canceled) {
				t.Errorf("the watch began: %v", err)
			}
		},
		"the stream outlives the first shard": func(t *testing.T, s *stream, u *upstream, join joiner) {
			ctx, cancel := context.WithCancel(t.Context())
			var whole context.Context
			w, err := s.watch(ctx, half(true, false), metav1.ListOptions{
				ResourceVersion: "5",
			}, func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				whole = ctx
				return u.open(ctx, options)
			})
			one := read(t, w, err)
			another := join(false, "5")
			cancel()
			one.Stop()
			synctest.Wait()
			if u.send(6, high); whole.Err() != nil {
				t.Error("the watch has ended with the first shard")
			}
			another.expect(t, "another", "MODIFIED default 6", "BOOKMARK  6")
			another.Stop()
			if synctest.Wait(); whole.Err() == nil {
				t.Error("the watch has not ended with the last shard")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, u := newStream(ofMetadataObjects, &exclusions{}), &upstream{}
				join := func(low bool, version string) *reader {
					w, err := s.watch(t.Context(), half(low, false), metav1.ListOptions{ResourceVersion: version}, u.open)
					r := read(t, w, err)
					t.Cleanup(r.Stop)
					return r
				}
				run(t, s, u, join)
			})
		})
	}
}

// TestShardsOfClusterScopedTypeGetCopies changes an object that leaves one shard for another. An informer may change
// what it gets.
func TestShardsOfClusterScopedTypeGetCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, u := newStream(ofMetadataObjects, nil), &upstream{}
		ofLabel := func(object runtime.Object) string { return object.(*metav1.PartialObjectMetadata).Labels["of"] }
		got := make(chan watch.Event, 2)
		for _, is := range []bool{true, false} {
			w, err := s.watch(t.Context(), half(is, false).Of(ofLabel), metav1.ListOptions{ResourceVersion: "5"}, u.open)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			go func() { got <- <-w.ResultChan() }()
		}
		moved := object("", 6)
		moved.Labels = map[string]string{"of": high}
		u.events.Modify(moved)
		one, another := <-got, <-got
		if one.Type == another.Type || one.Object == another.Object {
			t.Errorf("the shards got %v and %v", one, another)
		}
	})
}

func TestWatchesShareStream(t *testing.T) {
	clusterScoped := func(runtime.Object) string { return low }
	for name, c := range map[string]struct {
		filter  Filter
		selects bool
	}{
		"the API server serves shards":                   {half(true, true), true},
		"the API server does not":                        {half(true, false), false},
		"the API server serves shards, but not the type": {half(true, true).Of(clusterScoped), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &upstream{}
				var selectors []string
				for range 2 {
					w, err := c.filter.watch(t.Context(), ofMetadataObjects, metav1.ListOptions{ResourceVersion: "5"},
						u.selecting(&selectors))
					if err != nil {
						t.Fatal(err)
					}
					defer w.Stop()
				}
				if len(selectors) != 1 || c.selects != (selectors[0] != "") {
					t.Errorf("the requests have the selectors %q", selectors)
				}
			})
		})
	}
}
