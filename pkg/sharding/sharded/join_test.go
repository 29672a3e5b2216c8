package sharded

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// joining is a watch that joins a stream in a goroutine of its own, and is then read.
type joining struct {
	cancel context.CancelFunc
	reader *reader // nil until it has joined
	err    error
}

// reads returns the reader. It fails the test if the shard has not joined.
func (j *joining) reads(t *testing.T) *reader {
	t.Helper()
	if synctest.Wait(); j.reader == nil {
		t.Fatalf("the shard has not joined: %v", j.err)
	}
	return j.reader
}

// waits returns the number of shards that wait.
func waits(s *stream) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

// TestShardsJoinTogether lets a shard join a stream of an API server that selects shards. Its watch is on probation
// while others join.
func TestShardsJoinTogether(t *testing.T) {
	tooOld := &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired}
	for name, run := range map[string]func(
		t *testing.T, s *stream, u *upstream, join func(low bool, version string) *joining,
	){
		"shards that wait share the next watch": func(
			t *testing.T, _ *stream, u *upstream, join func(bool, string) *joining,
		) {
			first, second, third := join(true, "7"), join(false, "6"), join(true, "5")
			<-time.After(2 * probation)
			one, another, last := first.reads(t), second.reads(t), third.reads(t)
			u.expect(t, "7", "5")
			u.send(6, low, high, low)
			one.expect(t, "the first", "MODIFIED a 8", "BOOKMARK  8")
			another.expect(t, "the second", "MODIFIED default 7", "BOOKMARK  8")
			last.expect(t, "the third", "MODIFIED a 6", "MODIFIED a 8", "BOOKMARK  8")
		},
		"a shard whose version is too old keeps no other from joining": func(
			t *testing.T, _ *stream, u *upstream, join func(bool, string) *joining,
		) {
			u.opened = func() {
				if u.begun[len(u.begun)-1] == "5" {
					u.events.Action(watch.Error, tooOld)
				}
			}
			first, second, third := join(true, "7"), join(false, "6"), join(false, "5")
			<-time.After(2 * probation)
			one, another := first.reads(t), second.reads(t)
			u.expect(t, "7", "5", "6", "5")
			if !apierrors.IsResourceExpired(third.err) {
				t.Errorf("the error of the third shard is %v", third.err)
			}
			if one.ended || another.ended {
				t.Error("a watch has ended")
			}
		},
		"a shard joins although the version of the stream is too old": func(
			t *testing.T, _ *stream, u *upstream, join func(bool, string) *joining,
		) {
			first := join(true, "5")
			<-time.After(probation)
			one := first.reads(t)
			u.opened = func() {
				if u.begun[len(u.begun)-1] == "5" {
					u.events.Action(watch.Error, tooOld)
				}
			}
			second := join(false, "50")
			<-time.After(probation)
			another := second.reads(t)
			u.send(51, high)
			another.expect(t, "the second", "MODIFIED default 51", "BOOKMARK  51")
			if one.expect(t, "the first"); !one.ended {
				t.Error("the watch of the first has not ended, although nobody sends its events")
			}
			u.expect(t, "5", "5", "5", "50")
		},
		"a shard that cannot join ends no other watch": func(
			t *testing.T, _ *stream, u *upstream, join func(bool, string) *joining,
		) {
			first := join(true, "5")
			<-time.After(probation)
			one := first.reads(t)
			u.opened = func() { u.events.Action(watch.Error, tooOld) }
			second := join(false, "50")
			if synctest.Wait(); !apierrors.IsResourceExpired(second.err) {
				t.Errorf("the error of the second shard is %v", second.err)
			}
			if one.expect(t, "the first"); one.ended {
				t.Error("the watch of the first has ended")
			}
			u.expect(t, "5", "5", "5", "50")
		},
		"a shard whose stream has begun again gets a bookmark at its end": func(
			t *testing.T, _ *stream, u *upstream, join func(bool, string) *joining,
		) {
			first := join(true, "5")
			u.events.Modify(object(low, 6))
			u.events.Modify(object(high, 7))
			one := first.reads(t)
			join(true, "6")
			u.events.Modify(object(high, 7))
			synctest.Wait()
			u.events.Stop()
			one.expect(t, "the first", "MODIFIED a 6", "BOOKMARK  7")
			u.expect(t, "5", "6")
		},
		"a shard that is stopped while it waits leaves nothing": func(
			t *testing.T, s *stream, _ *upstream, join func(bool, string) *joining,
		) {
			first, second := join(true, "5"), join(false, "5")
			second.cancel()
			if synctest.Wait(); !errors.Is(second.err, context.Canceled) || waits(s) != 1 {
				t.Errorf("the error is %v, and %d shards wait", second.err, waits(s))
			}
			<-time.After(probation)
			first.reads(t)
		},
		"a shard that is stopped when it joins ends at once": func(
			t *testing.T, s *stream, u *upstream, join func(bool, string) *joining,
		) {
			first, second := join(true, "5"), join(true, "6")
			u.events.Modify(object(low, 6))
			second.cancel()
			u.events.Modify(object(low, 7))
			u.events.Action(watch.Bookmark, object("", 7))
			one := first.reads(t)
			one.expect(t, "the first", "MODIFIED a 6", "MODIFIED a 7", "BOOKMARK  7")
			if second.reader != nil && !second.reader.ended || waits(s) != 0 {
				t.Errorf("the watch has not ended, and %d shards wait", waits(s))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, u := newStream(ofMetadataObjects, nil), &upstream{}
				run(t, s, u, func(low bool, version string) *joining {
					ctx, cancel := context.WithCancel(t.Context())
					j := &joining{cancel: cancel}
					go func() {
						w, err := s.watch(ctx, half(low, true), metav1.ListOptions{ResourceVersion: version}, u.open)
						if err == nil {
							j.reader = read(t, w, nil)
							context.AfterFunc(ctx, w.Stop) // as an informer does
						}
						j.err = err
					}()
					synctest.Wait()
					return j
				})
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.events != nil {
					s.events.Stop()
				}
			})
		})
	}
}
