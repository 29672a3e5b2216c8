package sharded

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// stream passes the events of a watch to its members. A new member may need events that the watch lacks, because they
// are too old or not in its scope. The stream then continues with another watch. No member gets an event twice.
type stream struct {
	objects    source
	exclusions *exclusions
	opening    chan struct{} // semaphore, held while a member begins a watch

	mu      sync.Mutex
	events  watch.Interface // nil without members
	scope   scope           // of the watch
	version string          // of the latest event
	members []*member
	waiting []*member // that need another watch; one of them begins it for all
	// the shards of the last watch; the next watch receives their objects too, because their informers usually watch again
	former []Filter
}

func newStream(objects source, e *exclusions) *stream {
	return &stream{objects: objects, exclusions: e, opening: make(chan struct{}, 1)}
}

var (
	// errOrder is the error of a watch whose resource versions decrease.
	errOrder = errors.New("the resource version of an event is older than that of the event before")
	// errStopped is the error of a watch that was stopped before it joined.
	errStopped = errors.New("the watch was stopped")
)

// watch returns a watch of the objects of a shard. If it has no specific version, it first reads a watch of its own.
func (s *stream) watch(
	ctx context.Context, filter Filter, options metav1.ListOptions, open opener,
) (watch.Interface, error) {
	w := newMember(s, filter, options)
	if isVersion(w.version) {
		return ended(w, s.join(ctx, w, options, open))
	}
	own, first, _, err := s.begin(ctx, options, s.scopeOf(filter), open)
	if err != nil {
		return ended(w, err)
	}
	options.SendInitialEvents, options.ResourceVersionMatch = nil, ""
	go w.catchUp(context.WithoutCancel(ctx), own, first, func(ctx context.Context) error {
		return s.join(ctx, w, options, open)
	})
	return w, nil
}

// ended returns an ended watch instead of errEnded. client-go returns the same if the connection is closed.
func ended(w *member, err error) (watch.Interface, error) {
	switch {
	case errors.Is(err, errEnded):
		return watch.NewEmptyWatch(), nil
	case err != nil:
		return nil, err
	}
	return w, nil
}

// begin begins a watch with a scope, which excludes namespaces unless that is rejected. It returns the first events,
// and the scope of the watch.
func (s *stream) begin(
	ctx context.Context, options metav1.ListOptions, of scope, open opener,
) (events watch.Interface, first []watch.Event, begun scope, err error) {
	of.excluded, err = s.exclusions.sendWithFallback(ctx, of.excluded, func(excluded []string) error {
		events, first, err = beginProven(ctx, scope{of.shards, excluded}.limit(options), open)
		return err
	})
	return events, first, of, err
}

// run passes the events of a watch until it ends.
func (s *stream) run(events watch.Interface, first []watch.Event) {
	defer events.Stop()
	for _, event := range first {
		if !s.pass(events, event) {
			return
		}
	}
	for event := range events.ResultChan() {
		if !s.pass(events, event) {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events == events {
		s.end()
	}
}

// end ends the watches of all members. Before, each member gets a bookmark with the version up to which it has got all
// events, unless it has joined with that version. The caller holds mu.
func (s *stream) end() {
	deadline := time.Now().Add(sendPatience)
	for _, w := range s.members {
		latest := s.version
		if isNewer(w.version, latest) {
			latest = w.version
		}
		if isNewer(latest, w.began) {
			w.send(s.objects.bookmark(latest), deadline)
		}
	}
	s.dismiss()
}

// pass sends an event to the members that have not got it yet. An error ends the watches of all members. pass returns
// false if the stream has ended, or continues with another watch.
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
	if event.Type == watch.Error {
		s.send(event, s.version)
		s.dismiss()
		return false
	}
	s.send(event, version)
	s.version = version
	return true
}

// send sends an event with a version. It waits for its members up to sendPatience. The caller holds mu, so that new
// watches wait too.
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
	if len(receivers) == 0 {
		s.exclusions.discarded(event.Object)
	}
	deadline := time.Now().Add(sendPatience)
	for i, w := range receivers {
		w.send(sent[i], deadline)
	}
}

// dismiss ends the watches of all members.
func (s *stream) dismiss() {
	s.former = nil
	for _, w := range s.members {
		s.former = append(s.former, w.filter)
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
