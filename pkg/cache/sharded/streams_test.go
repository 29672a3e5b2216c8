package sharded

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/watch"
)

// upstream opens watches whose events a test sends.
type upstream struct {
	err    error
	begun  []string // the versions after which watches began
	events *watch.FakeWatcher
}

func (u *upstream) open(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if u.err != nil {
		return nil, u.err
	}
	u.begun, u.events = append(u.begun, options.ResourceVersion), watch.NewFake()
	return u.events, nil
}

// send sends a change of an object in each namespace, with consecutive versions, and then a bookmark with the last version.
func (u *upstream) send(version int, namespaces ...string) {
	for _, namespace := range namespaces {
		u.events.Modify(object(namespace, version))
		version++
	}
	u.events.Action(watch.Bookmark, object("", version-1))
	synctest.Wait()
}

func object(namespace string, version int) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "it", ResourceVersion: fmt.Sprint(version)}}
}

// reader receives the events of a watch.
type reader struct {
	watch.Interface
	got   []string
	ended bool
}

func read(t *testing.T, w watch.Interface, err error) *reader {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{Interface: w}
	go func() {
		for event := range w.ResultChan() {
			text := string(event.Type)
			if object, ok := event.Object.(*metav1.PartialObjectMetadata); ok {
				text += " " + object.Namespace + " " + object.ResourceVersion
			}
			r.got = append(r.got, text)
		}
		r.ended = true
	}()
	return r
}

func (r *reader) expect(t *testing.T, who string, want ...string) {
	t.Helper()
	synctest.Wait()
	if fmt.Sprint(r.got) != fmt.Sprint(want) {
		t.Errorf("%s got %q, want %q", who, r.got, want)
	}
	r.got = nil
}

// half returns the shard of the namespaces whose hash is below that of b, or that of the others.
func half(low bool) Filter {
	r := sharding.ShardRangeRequirement{Key: "object.metadata.namespace", Start: "0x0000000000000000", End: "0x" + sharding.HashField("b")}
	if !low {
		r.Start, r.End = r.End, "0x10000000000000000"
	}
	return NewFilter(sharding.NewSelector(r))
}

// A namespace in each shard.
const low, high = "a", "default"

func TestShardsShareStream(t *testing.T) {
	at := func(version string) metav1.ListOptions { return metav1.ListOptions{ResourceVersion: version} }
	for name, run := range map[string]func(t *testing.T, s *stream, u *upstream, join func(low bool, version string) *reader){
		"each shard gets its events, and all bookmarks": func(t *testing.T, _ *stream, u *upstream, join func(bool, string) *reader) {
			one, another := join(true, "5"), join(false, "5")
			u.send(6, low, high)
			one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  7")
			another.expect(t, "another", "MODIFIED default 7", "BOOKMARK  7")
			expectBegun(t, u, "5")
		},
		"a shard that begins at an earlier version gets what it has missed, and another shard gets nothing twice": func(t *testing.T, _ *stream, u *upstream, join func(bool, string) *reader) {
			one := join(true, "5")
			u.send(6, low, high, low)
			another := join(false, "6")
			one.got = nil
			u.send(7, high, low, low)
			one.expect(t, "one", "MODIFIED a 9", "BOOKMARK  9")
			another.expect(t, "another", "MODIFIED default 7", "BOOKMARK  9")
			expectBegun(t, u, "5", "6")
		},
		"a shard that begins at a later version does not get earlier events": func(t *testing.T, _ *stream, u *upstream, join func(bool, string) *reader) {
			join(true, "5")
			another := join(false, "7")
			u.send(6, high, high, high)
			another.expect(t, "another", "MODIFIED default 8", "BOOKMARK  8")
			expectBegun(t, u, "5")
		},
		"shards watch again when the API server ends the watch": func(t *testing.T, _ *stream, u *upstream, join func(bool, string) *reader) {
			one, another := join(true, "5"), join(false, "5")
			u.send(6, low)
			u.events.Stop()
			if synctest.Wait(); !one.ended || !another.ended {
				t.Error("a watch has not ended")
			}
			one = join(true, "6")
			u.send(7, low)
			one.expect(t, "one", "MODIFIED a 7", "BOOKMARK  7")
			expectBegun(t, u, "5", "6")
		},
		"an error ends the watches of all shards": func(t *testing.T, _ *stream, u *upstream, join func(bool, string) *reader) {
			one, another := join(true, "5"), join(false, "5")
			u.events.Error(&metav1.Status{Reason: metav1.StatusReasonExpired})
			one.expect(t, "one", "ERROR")
			another.expect(t, "another", "ERROR")
		},
		"an event without a version is an error": func(t *testing.T, _ *stream, u *upstream, join func(bool, string) *reader) {
			one := join(true, "5")
			u.events.Modify(&metav1.PartialObjectMetadata{})
			one.expect(t, "one", "ERROR")
		},
		"the watch ends with the last shard": func(t *testing.T, s *stream, u *upstream, join func(bool, string) *reader) {
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
		"a shard that does not receive does not stop others from leaving": func(t *testing.T, s *stream, u *upstream, join func(bool, string) *reader) {
			one := join(true, "5")
			slow, err := s.join(t.Context(), half(false), at("5"), u.open)
			if err != nil {
				t.Fatal(err)
			}
			go u.events.Modify(object(high, 6))
			synctest.Wait()
			one.Stop()
			slow.Stop()
			if synctest.Wait(); !one.ended || s.events != nil {
				t.Error("the stream has not ended")
			}
		},
		"a shard whose watch cannot begin leaves the watches of others alone": func(t *testing.T, s *stream, u *upstream, join func(bool, string) *reader) {
			one := join(true, "5")
			u.send(6, low)
			u.err = errors.New("no")
			if _, err := s.join(t.Context(), half(false), at("5"), u.open); err == nil {
				t.Error("the watch began")
			}
			if _, err := s.join(t.Context(), half(false), at(""), u.open); err == nil {
				t.Error("a watch without a version began")
			}
			u.send(7, low)
			one.expect(t, "one", "MODIFIED a 6", "BOOKMARK  6", "MODIFIED a 7", "BOOKMARK  7")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, u := &stream{}, &upstream{}
				join := func(low bool, version string) *reader {
					w, err := s.join(t.Context(), half(low), at(version), u.open)
					r := read(t, w, err)
					t.Cleanup(r.Stop)
					return r
				}
				run(t, s, u, join)
			})
		})
	}
}

func expectBegun(t *testing.T, u *upstream, versions ...string) {
	t.Helper()
	if fmt.Sprint(u.begun) != fmt.Sprint(versions) {
		t.Errorf("watches began after the versions %q, want %q", u.begun, versions)
	}
}

// TestShardsOfClusterScopedTypeGetCopies changes an object that leaves one shard for another. An informer may change what it gets.
func TestShardsOfClusterScopedTypeGetCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, u := &stream{}, &upstream{}
		ofLabel := func(object runtime.Object) string { return object.(*metav1.PartialObjectMetadata).Labels["of"] }
		got := make(chan watch.Event, 2)
		for _, is := range []bool{true, false} {
			w, err := s.join(t.Context(), half(is).Of(ofLabel), metav1.ListOptions{ResourceVersion: "5"}, u.open)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			go func() { got <- <-w.ResultChan() }()
		}
		moved := object("", 6)
		moved.Labels = map[string]string{"of": high}
		u.events.Modify(moved)
		synctest.Wait()
		one, another := <-got, <-got
		if one.Type == another.Type || one.Object == another.Object {
			t.Errorf("the shards got %v and %v", one, another)
		}
	})
}

func TestStreamFollowsInitialEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, streams, yes := &upstream{}, &Streams{}, true
		for _, c := range []struct {
			served bool
			begun  []string
		}{{true, []string{""}}, {false, []string{"", "7"}}} {
			u.begun = nil
			w, err := half(true).Share(streams, c.served).watch(t.Context(), source{}, metav1.ListOptions{SendInitialEvents: &yes}, u.open)
			r := read(t, w, err)
			u.send(6, low, high)
			end := object("", 7)
			end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
			u.events.Action(watch.Bookmark, end)
			synctest.Wait()
			u.send(8, low)
			r.expect(t, "it", "MODIFIED a 6", "BOOKMARK  7", "BOOKMARK  7", "MODIFIED a 8", "BOOKMARK  8")
			expectBegun(t, u, c.begun...)
			r.Stop()
			if synctest.Wait(); !r.ended || !u.events.IsStopped() {
				t.Error("a watch has not ended")
			}
		}
	})
}
