package sharded

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// stream passes the events of a watch to its members. A new member may need events that the watch lacks: events that
// are too old, or events of a shard that the watch does not select. The stream then continues with another watch. No
// member gets an event twice.
type stream struct {
	objects    source
	exclusions exclusions
	opening    chan struct{} // semaphore, held while a member joins

	mu      sync.Mutex
	events  watch.Interface // nil without members
	shards  []Filter        // of the watch; after its end, the shards whose informers will probably watch again
	version string          // of the latest event
	members []*member
}

// watch returns a watch of the objects of a shard. A watch with initial events ends after them. The informer then
// watches again from the version of the last event, and joins the stream.
func (s *stream) watch(
	ctx context.Context, filter Filter, options metav1.ListOptions, open opener,
) (watch.Interface, error) {
	w := newMember(s, filter, options.ResourceVersion)
	if isVersion(w.version) && !ptr.Deref(options.SendInitialEvents, false) {
		if err := s.join(ctx, w, options, open); err != nil {
			return nil, err
		}
		return w, nil
	}
	own, err := open(ctx, limited(options, filter))
	if err != nil {
		return nil, err
	}
	go w.forward(own)
	return w, nil
}

// join lets a member receive the events after the member's version. If the current watch lacks some of these events,
// the stream continues with another watch.
func (s *stream) join(ctx context.Context, w *member, options metav1.ListOptions, open opener) error {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return ctx.Err()
	}
	version, shards, joined := s.admit(w)
	if joined {
		return nil
	}
	options.ResourceVersion = version
	events, err := openLasting(ctx, limited(options, shards...), open)
	if err != nil {
		return err
	}
	s.resume(w, events, version, shards)
	return nil
}

// openLasting begins a watch that does not end with ctx, because the stream may outlive its first member. It returns an
// error if ctx ends before the watch has begun.
func openLasting(ctx context.Context, options metav1.ListOptions, open opener) (watch.Interface, error) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, cancel)
	events, err := open(lasting, options)
	if detach() || err != nil {
		return events, err
	}
	go events.Stop() // Stop may wait for the network
	return nil, ctx.Err()
}

// admit lets a member join if the watch of the stream has all events that the member needs. Otherwise, it returns the
// version after which another watch must begin, and the shards of that watch.
func (s *stream) admit(w *member) (version string, shards []Filter, joined bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events != nil && !isNewer(s.version, w.version) && hasShard(s.shards, w.filter) {
		s.members = append(s.members, w)
		return "", nil, true
	}
	version, shards = w.version, slices.Clone(s.shards)
	if s.events != nil {
		shards = s.shardsOfMembers()
		if isNewer(version, s.version) {
			version = s.version
		}
	}
	if !hasShard(shards, w.filter) {
		shards = append(shards, w.filter)
	}
	return version, shards, false
}

// resume continues the stream with a watch that began after version, and adds a member. The caller holds opening, so
// that no other member has joined since admit.
func (s *stream) resume(w *member, events watch.Interface, version string, shards []Filter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events != nil {
		go s.events.Stop() // Stop may wait for the network
	}
	for _, m := range s.members { // the members have got all events up to s.version
		if isNewer(s.version, m.version) {
			m.version = s.version
		}
	}
	s.events, s.version, s.shards = events, version, shards
	s.members = append(s.members, w)
	go s.run(events)
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
		s.end(nil)
	}
}

// pass sends an event to the members that have not got it yet. An error ends the stream. pass returns false if the
// stream has ended, or continues with another watch.
func (s *stream) pass(events watch.Interface, event watch.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events != events {
		return false
	}
	if event.Type != watch.Error {
		version := versionOf(event.Object)
		if order, err := resourceversion.CompareResourceVersion(version, s.version); err == nil && order >= 0 {
			s.send(event, version)
			return true
		}
		err := fmt.Errorf("an event has the resource version %q, and the event before it %q", version, s.version)
		event = watch.Event{Type: watch.Error, Object: &apierrors.NewInternalError(err).ErrStatus}
	}
	s.end(&event)
	return false
}

// send sends an event with a version to its members, and waits until they have received the event. The caller holds mu,
// so that new members wait too.
func (s *stream) send(event watch.Event, version string) {
	s.version = version
	var receivers []*member
	var sent []watch.Event
	for _, w := range s.members {
		one, ok := w.filter.event(event)
		if !ok || !isNewer(version, w.version) {
			continue
		}
		if len(sent) > 0 {
			one.Object = one.Object.DeepCopyObject() // an informer may change its object
		}
		receivers, sent = append(receivers, w), append(sent, one)
	}
	if len(receivers) == 0 {
		s.exclusions.discarded(event.Object)
	}
	for i, w := range receivers {
		w.send(sent[i])
	}
}

// end ends the watches of all members. If failure is not nil, each member first gets it, except members that have got
// all events up to a version later than the version of the stream. A member that does not get failure first gets a
// bookmark with the version up to which it has got all events, unless it joined with this version. The caller holds mu.
func (s *stream) end(failure *watch.Event) {
	for _, w := range s.members {
		latest := w.version
		if isNewer(s.version, latest) {
			latest = s.version
		}
		switch {
		case failure != nil && latest == s.version:
			w.send(*failure)
		case isNewer(latest, w.began):
			w.send(s.objects.bookmark(latest))
		}
		close(w.some)
	}
	s.shards = s.shardsOfMembers()
	s.members, s.events = nil, nil
}

// leave ends the watch of a member.
func (s *stream) leave(w *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.members, w)
	if i < 0 {
		return // the member has not joined, or the stream has ended
	}
	close(w.some)
	if s.members = slices.Delete(s.members, i, i+1); len(s.members) == 0 {
		go s.events.Stop()
		s.events, s.shards = nil, nil
	}
}

func (s *stream) shardsOfMembers() (shards []Filter) {
	for _, w := range s.members {
		if !hasShard(shards, w.filter) {
			shards = append(shards, w.filter)
		}
	}
	return shards
}

func hasShard(shards []Filter, shard Filter) bool {
	return slices.ContainsFunc(shards, func(f Filter) bool { return f.selector.String() == shard.selector.String() })
}
