package sharded

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/watch"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

var tooOld = &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired}

func TestShardsShareStream(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, s *stream, u *upstream){
		"each shard gets its events, and all bookmarks": func(t *testing.T, _ *stream, u *upstream) {
			one, another := u.join(t, true, "5"), u.join(t, false, "5")
			u.send(6, low, high)
			one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  7")
			another.expect(t, "another", "MODIFIED default 7", "BOOKMARK  7")
			u.join(t, true, "7")
			u.expect(t, "5", "5")
		},
		"a shard that is behind gets earlier events, which the others do not get again": func(
			t *testing.T, _ *stream, u *upstream,
		) {
			one := u.join(t, true, "5")
			u.send(6, low, high, low)
			one.expect(t, "one", "MODIFIED a 6", "MODIFIED a 8", "BOOKMARK  8")
			previous := u.events
			another := u.join(t, false, "6")
			if synctest.Wait(); !previous.IsStopped() {
				t.Error("the previous watch has not been stopped")
			}
			u.send(7, high, low, high, low)
			one.expect(t, "one", "MODIFIED a 10", "BOOKMARK  10")
			another.expect(t, "another", "MODIFIED default 7", "MODIFIED default 9", "BOOKMARK  10")
			u.expect(t, "5", "6")
		},
		"a shard whose version is older than that of the watch": func(t *testing.T, _ *stream, u *upstream) {
			u.join(t, true, "5")
			u.send(6, low, low)
			again := u.join(t, true, "6")
			u.send(7, low)
			again.expect(t, "the shard", "MODIFIED a 7", "BOOKMARK  7")
			u.expect(t, "5", "6")
		},
		"a shard whose objects the watch excludes": func(t *testing.T, _ *stream, u *upstream) {
			u.discard(high)
			one := u.join(t, true, "5")
			u.send(6, low)
			another := u.join(t, false, "8")
			u.send(7, high, high, high)
			one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  6", "BOOKMARK  9")
			another.expect(t, "another", "MODIFIED default 9", "BOOKMARK  9")
			u.expect(t, "5 metadata.namespace!=default", "6")
		},
		"what all shards discard is excluded later": func(t *testing.T, _ *stream, u *upstream) {
			u.join(t, true, "5")
			u.send(6, low, high)
			u.events.Stop()
			synctest.Wait()
			u.join(t, true, "7")
			u.expect(t, "5", "7 metadata.namespace!=default")
		},
		"a shard that is ahead gets no earlier event, also from another watch": func(
			t *testing.T, _ *stream, u *upstream,
		) {
			u.join(t, true, "5")
			ahead := u.join(t, true, "9")
			u.send(6, low)
			u.join(t, false, "5")
			u.send(6, low, low, low, low, low)
			ahead.expect(t, "the shard", "MODIFIED a 10", "BOOKMARK  10")
			u.expect(t, "5", "5")
		},
		"shards that return after the end of a watch share the next one": func(t *testing.T, _ *stream, u *upstream) {
			one, another := u.join(t, true, "5"), u.join(t, false, "5")
			u.events.Modify(object(low, 6))
			u.events.Stop()
			one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  6")
			another.expect(t, "another", "BOOKMARK  6") // its informer watches again after version 6, not after version 5
			if !one.ended || !another.ended {
				t.Error("a watch has not ended")
			}
			one, another = u.join(t, true, "6"), u.join(t, false, "6")
			u.send(7, low, high)
			one.expect(t, "one", "MODIFIED a 7", "BOOKMARK  8")
			another.expect(t, "another", "MODIFIED default 8", "BOOKMARK  8")
			u.expect(t, "5", "5", "6")
		},
		"a watch that ends at once ends the watches of shards without a bookmark": func(
			t *testing.T, _ *stream, u *upstream,
		) {
			one := u.join(t, true, "5")
			u.events.Stop()
			if one.expect(t, "one"); !one.ended { // the informer lists again, after a delay
				t.Error("the watch has not ended")
			}
		},
		"an error ends the watches of all shards": func(t *testing.T, s *stream, u *upstream) {
			one, another := u.join(t, true, "5"), u.join(t, false, "5")
			u.events.Action(watch.Error, tooOld)
			one.expect(t, "one", "ERROR")
			another.expect(t, "another", "ERROR")
			if !one.ended || !another.ended || !u.events.IsStopped() || s.events != nil {
				t.Error("a watch, or the stream, has not ended")
			}
		},
		"only the shard whose version is too old has to list again": func(t *testing.T, _ *stream, u *upstream) {
			one := u.join(t, true, "5")
			u.send(6, low, high)
			another := u.join(t, false, "5")
			u.events.Action(watch.Error, tooOld)
			another.expect(t, "another", "ERROR")
			one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  7", "BOOKMARK  7")
			if !one.ended || !another.ended {
				t.Error("a watch has not ended")
			}
		},
		"a watch that cannot begin leaves the watches of others alone": func(t *testing.T, s *stream, u *upstream) {
			one := u.join(t, true, "5")
			u.err = errors.New("no")
			if w, err := u.watch(t.Context(), false, "5"); w != nil || !errors.Is(err, u.err) || len(s.opening) > 0 {
				t.Errorf("the watch began: %v", err)
			}
			u.send(6, low)
			one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  6")
		},
		"an event without a version is an error": func(t *testing.T, _ *stream, u *upstream) {
			one := u.join(t, true, "5")
			u.events.Modify(&metav1.PartialObjectMetadata{})
			one.expect(t, "one", "ERROR")
		},
		"an event that is older than the one before is an error": func(t *testing.T, _ *stream, u *upstream) {
			one := u.join(t, true, "5")
			u.send(9, low)
			u.events.Modify(object(low, 8))
			one.expect(t, "one", "MODIFIED a 9", "BOOKMARK  9", "ERROR")
		},
		"a shard without a version has a watch of its own": func(t *testing.T, s *stream, u *upstream) {
			one := u.join(t, true, "0")
			u.send(6, low)
			one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  6")
			if s.events != nil {
				t.Error("it joined the stream")
			}
		},
		"the watch ends with the last shard": func(t *testing.T, s *stream, u *upstream) {
			one, another := u.join(t, true, "5"), u.join(t, false, "5")
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
			u.join(t, true, "6")
			u.expect(t, "5", "5", "6")
			controllertest.Equal(t, "selector of the last watch", u.half(true).selector.String(), u.selectors[2])
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream()
				run(t, u.stream(), u)
			})
		})
	}
}

// TestShardsStopIndependently stops a shard while this shard or another shard waits.
func TestShardsStopIndependently(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, s *stream, u *upstream){
		"while another one does not receive": func(t *testing.T, s *stream, u *upstream) {
			one := u.join(t, true, "5")
			slow, err := u.watch(t.Context(), false, "5")
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			u.events.Modify(object(high, 6))
			synctest.Wait()
			one.Stop()
			slow.Stop()
			if synctest.Wait(); !one.ended || s.events != nil {
				t.Error("the stream has not ended")
			}
		},
		"while the watch of another one begins": func(t *testing.T, s *stream, u *upstream) {
			go func() {
				_, _ = s.watch(t.Context(), u.half(true), metav1.ListOptions{ResourceVersion: "5"},
					func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
						<-ctx.Done()
						return nil, ctx.Err()
					})
			}()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if w, err := u.watch(ctx, false, "5"); w != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the watch began: %v", err)
			}
		},
		"while their watch begins": func(t *testing.T, s *stream, u *upstream) {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := s.watch(ctx, u.half(true), metav1.ListOptions{ResourceVersion: "5"},
				func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
					cancel()
					<-ctx.Done()
					return nil, ctx.Err()
				})
			if !errors.Is(err, context.Canceled) || len(s.opening) > 0 {
				t.Errorf("the error is %v", err)
			}
		},
		"before another one, which continues with the same watch": func(t *testing.T, s *stream, u *upstream) {
			ctx, cancel := context.WithCancel(t.Context())
			var whole context.Context
			w, err := s.watch(ctx, u.half(true), metav1.ListOptions{ResourceVersion: "5"},
				func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
					whole = ctx
					return u.open(ctx, options)
				})
			one := read(t, w, err)
			another := u.join(t, true, "5")
			cancel()
			one.Stop()
			synctest.Wait()
			if u.send(6, low); whole.Err() != nil {
				t.Error("the watch has ended with the first shard")
			}
			another.expect(t, "another", "MODIFIED a 6", "BOOKMARK  6")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream()
				run(t, u.stream(), u)
			})
		})
	}
}

// TestShardsOfClusterScopedTypeGetCopies moves an object from one shard to another. The shards get different copies,
// because an informer may change its object.
func TestShardsOfClusterScopedTypeGetCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream()
		ofLabel := func(object runtime.Object) string { return object.(*metav1.PartialObjectMetadata).Labels["of"] }
		got := make(chan watch.Event, 2)
		for _, is := range []bool{true, false} {
			w, err := u.stream().watch(t.Context(), u.half(is).Of(ofLabel), metav1.ListOptions{ResourceVersion: "5"}, u.open)
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
		controllertest.Equal(t, "selectors", []string{"", ""}, u.selectors)
	})
}

// TestStreamSelectsItsShards lets two shards join and leave a stream of an API server that selects shards.
func TestStreamSelectsItsShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream()
		one := u.join(t, true, "5")
		u.send(6, low)
		another := u.join(t, false, "6")
		u.send(7, low, high)
		one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  6", "MODIFIED a 7", "BOOKMARK  8")
		another.expect(t, "another", "MODIFIED default 8", "BOOKMARK  8")
		one.Stop()
		synctest.Wait()
		again := u.join(t, true, "8") // the watch has the objects of both shards until it ends
		u.send(9, low)
		again.expect(t, "one again", "MODIFIED a 9", "BOOKMARK  9")
		bound := "0x" + sharding.HashField("b")
		first := "shardRange(object.metadata.namespace, '0x0000000000000000', '" + bound + "')"
		second := "shardRange(object.metadata.namespace, '" + bound + "', '0x10000000000000000')"
		controllertest.Equal(t, "selectors", []string{first, first + " || " + second}, u.selectors)
	})
}
