package sharded

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// join lets a member receive the events of the stream after the member's version. If that needs another watch, join
// begins one, or waits for a member that does. If the watch fails, or ctx or the member ends before that, join stops
// the member and returns an error.
func (s *stream) join(ctx context.Context, w *member, options metav1.ListOptions, open opener) error {
	s.mu.Lock()
	joined := s.admit(w)
	if !joined {
		s.waiting = append(s.waiting, w)
	}
	s.mu.Unlock()
	if joined {
		return nil
	}
	err := s.waitOrBegin(ctx, w, options, open)
	if err == nil {
		return nil // do not lock mu here: the stream may hold it until the caller receives an event
	}
	w.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopWaiting(w)
	if w.hasJoined() {
		return nil // leave ends the watch
	}
	return err
}

// waitOrBegin waits until another member begins a watch with which this member joins. If no other member begins one
// now, it begins a watch for all members that wait.
func (s *stream) waitOrBegin(ctx context.Context, w *member, options metav1.ListOptions, open opener) error {
	select {
	case <-w.joined:
		return nil
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if w.hasJoined() {
		return nil
	}
	for others := waitingToo; ; {
		version, needed, joined := s.needs(w, others)
		switch {
		case joined:
			return nil
		case w.isStopped():
			return errStopped
		}
		options.ResourceVersion = version
		events, first, begun, err := s.begin(ctx, options, needed, open)
		switch {
		case isTooOld(err) && version != w.version && others != nobody:
			others++ // perhaps only the version of another member is too old
		case err != nil:
			return err
		case s.resume(w, events, first, version, begun):
			return nil
		}
	}
}

// admit lets a member join if the watch of the stream has all events that the member needs. The caller holds mu.
func (s *stream) admit(w *member) (joined bool) {
	if s.events == nil || w.isStopped() || isNewer(s.version, w.version) || !s.scope.has(w.filter) {
		return false
	}
	s.add(w)
	return true
}

// add adds a member. The caller holds mu.
func (s *stream) add(w *member) {
	s.stopWaiting(w)
	s.members, w.began = append(s.members, w), w.version
	close(w.joined)
}

// stopWaiting forgets that a member waits. The caller holds mu.
func (s *stream) stopWaiting(w *member) {
	s.waiting = slices.DeleteFunc(s.waiting, func(other *member) bool { return other == w })
}

// isTooOld reports whether a watch failed because its version is too old.
func isTooOld(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// The other members whose versions count when the next watch begins. Its scope includes the shards of all members in
// any case. If the API server says that the version is too old, the next value is tried.
const (
	waitingToo = iota // the members that have joined, and the members that wait
	joinedOnly        // the members that have joined
	nobody            // none: the watches of the members that have joined end if they need earlier events
)

// needs lets a member join if possible. Otherwise, it returns the version after which another watch must begin, and its
// scope.
func (s *stream) needs(w *member, others int) (version string, needed scope, joined bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admit(w) {
		return "", scope{}, true
	}
	version = w.version
	if others != nobody && s.events != nil && isNewer(version, s.version) {
		version = s.version
	}
	shards := append([]Filter{w.filter}, s.former...)
	for _, m := range s.members {
		shards = append(shards, m.filter)
	}
	for _, m := range s.waiting {
		if shards = append(shards, m.filter); others == waitingToo && isNewer(version, m.version) {
			version = m.version
		}
	}
	return version, s.scopeOf(shards...), false
}

// resume continues the stream with a watch that began after version, and whose first events the caller has read. It
// adds w, and the waiting members that the watch has all events for. If w has been stopped, or a member has joined in
// the meantime whose objects the watch lacks, resume stops the watch and returns false.
func (s *stream) resume(w *member, events watch.Interface, first []watch.Event, version string, begun scope) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.isStopped() || slices.ContainsFunc(s.members, func(m *member) bool { return !begun.has(m.filter) }) {
		go events.Stop() // it may wait for the network
		return false
	}
	if s.events != nil {
		go s.events.Stop()
		if isNewer(version, s.version) {
			s.end() // the members need events that the watch lacks
		}
	}
	for _, m := range s.members { // they have got all events up to s.version
		if isNewer(s.version, m.version) {
			m.version = s.version
		}
	}
	s.events, s.version, s.scope, s.former = events, version, begun, nil
	s.add(w)
	for _, m := range slices.Clone(s.waiting) {
		s.admit(m)
	}
	go s.run(events, first)
	return true
}
