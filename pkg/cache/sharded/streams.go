package sharded

import (
	"context"
	"errors"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Streams are watches that the shards of a process share. Each stream receives the events of all shards, so that the process decodes each event
// once. Streams are for objects that the API server does not limit to a shard. The zero Streams are ready to use, and are safe for concurrent
// use.
type Streams struct {
	mu  sync.Mutex
	all map[source]*stream
}

// source identifies the objects of a stream.
type source struct {
	of                        string // their type
	namespace, labels, fields string
}

// opener begins a watch of all shards.
type opener func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)

func (s *Streams) of(objects source) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[source]*stream{}
	}
	if s.all[objects] == nil {
		s.all[objects] = &stream{}
	}
	return s.all[objects]
}

// stream passes the events of a watch to its members. A member is behind if its version is older than that of the stream. It then reads a
// watch of its own, and joins once it is no longer behind. The stream continues the watch of its first member.
type stream struct {
	mu      sync.Mutex
	events  watch.Interface // nil without members
	version string          // of the latest event
	members []*member
}

// errOrder is the error of a watch whose resource versions decrease.
var errOrder = errors.New("the resource version of an event is older than that of the event before")

// watch returns a watch of the objects of a shard.
func (s *stream) watch(ctx context.Context, filter Filter, options metav1.ListOptions, open opener) (watch.Interface, error) {
	w := newMember(s, filter, options)
	if !s.admit(w, nil) {
		events, err := begin(ctx, options, open)
		if err != nil {
			return nil, err
		}
		go w.catchUp(events)
	}
	return w, nil
}

// admit lets a member join unless it is behind the stream or has been stopped. own is the member's own watch, or nil. If the member joins, own
// becomes the watch of the stream, or is stopped. Without own, a member can join only a stream that has a watch.
func (s *stream) admit(w *member, own watch.Interface) (joined bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !isVersion(w.version), w.isStopped(), s.events == nil && own == nil:
		return false
	case s.events == nil:
		s.events, s.version = own, w.version
		go s.run(own)
	case isNewer(s.version, w.version):
		return false
	case own != nil:
		go own.Stop() // it may wait for the network
	}
	s.members = append(s.members, w)
	return true
}

// run passes the events of a watch until it ends.
func (s *stream) run(events watch.Interface) {
	defer events.Stop()
	for event := range events.ResultChan() {
		if !s.pass(events, event) {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events == events {
		s.dismiss()
	}
}

// pass sends an event to the members that have not got it. An error ends the watches of all members. pass returns false if the stream has
// ended.
func (s *stream) pass(events watch.Interface, event watch.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events != events {
		return false
	}
	version, err := versionOf(event)
	if err == nil && isNewer(s.version, version) {
		err = errOrder
	}
	if err != nil {
		event = watch.Event{Type: watch.Error, Object: &apierrors.NewInternalError(err).ErrStatus}
	}
	s.send(event, version)
	if event.Type == watch.Error {
		s.dismiss()
		return false
	}
	s.version = version
	return true
}

// send sends an event with a version. It waits for each member up to sendPatience. The caller holds mu, so that new watches wait too.
func (s *stream) send(event watch.Event, version string) {
	var receivers []*member
	var sent []watch.Event
	for _, w := range s.members {
		one, ok := w.next(event, version)
		if !ok {
			continue
		}
		if len(sent) > 0 {
			one.Object = one.Object.DeepCopyObject() // an informer may change its object
		}
		receivers, sent = append(receivers, w), append(sent, one)
	}
	for i, w := range receivers {
		w.send(sent[i])
	}
}

// dismiss ends the watches of all members.
func (s *stream) dismiss() {
	for _, w := range s.members {
		close(w.some)
	}
	s.members, s.events = nil, nil
}

// leave ends the watch of a member.
func (s *stream) leave(w *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.members, w)
	if i < 0 {
		return // it has not joined, or the stream has ended
	}
	close(w.some)
	if s.members = slices.Delete(s.members, i, i+1); len(s.members) == 0 {
		go s.events.Stop()
		s.events = nil
	}
}
