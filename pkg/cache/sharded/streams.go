package sharded

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Streams are watches that the shards of a process share. Each stream receives the events of all its shards, so that the process decodes each
// event once. Streams are for objects that the API server does not limit to a shard. The zero Streams are ready to use, and are safe for
// concurrent use.
type Streams struct {
	exclusions exclusions // of all streams, and of the lists for their shards

	mu  sync.Mutex
	all map[source]*stream
}

// source identifies the objects of a stream.
type source struct {
	of                        string       // their resource
	object                    reflect.Type // of an event
	namespace, labels, fields string
}

// bookmark returns a bookmark for those who watch the objects.
func (s source) bookmark(version string) watch.Event {
	object := reflect.New(s.object.Elem()).Interface().(runtime.Object)
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetResourceVersion(version)
	}
	return watch.Event{Type: watch.Bookmark, Object: object}
}

// opener begins a watch of all shards.
type opener func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)

func (s *Streams) of(objects source, e *exclusions) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[source]*stream{}
	}
	if s.all[objects] == nil {
		s.all[objects] = newStream(objects, e)
	}
	return s.all[objects]
}

// stream passes the events of a watch to its members. If a member joins that needs earlier events, or those of namespaces that the watch leaves
// out, the stream continues with another watch, and each member gets the events that it has not got.
type stream struct {
	objects    source
	exclusions *exclusions
	opening    chan struct{} // is full while a member begins a watch

	mu       sync.Mutex
	events   watch.Interface // nil without members
	version  string          // of the latest event
	excluded []string        // the namespaces that the watch leaves out
	members  []*member
	former   []Filter // the shards whose watches ended with the last watch: they usually return
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

// watch returns a watch of the objects of a shard. If it has no certain version, it first reads a watch of its own.
func (s *stream) watch(ctx context.Context, filter Filter, options metav1.ListOptions, open opener) (watch.Interface, error) {
	w := newMember(s, filter, options)
	if isVersion(w.version) {
		if err := s.join(ctx, w, options, open); err != nil {
			return nil, err
		}
		return w, nil
	}
	var own watch.Interface
	excluded, err := s.exclusions.try(ctx, s.exclusions.outside([]Filter{filter}), func(excluded []string) (err error) {
		own, err = beginLasting(ctx, leaveOut(options, excluded), open)
		return err
	})
	if err != nil {
		return nil, err
	}
	options.SendInitialEvents, options.ResourceVersionMatch = nil, ""
	go func() {
		err := w.catchUp(context.WithoutCancel(ctx), own, func(ctx context.Context) error { return s.join(ctx, w, options, open) })
		if len(excluded) > 0 && errors.Is(err, errEnded) {
			s.exclusions.refuses(ctx, err)
		}
	}()
	return w, nil
}

// join lets a member receive the events of the stream after its version. If another watch is necessary, and fails, the stream continues
// without the member.
func (s *stream) join(ctx context.Context, w *member, options metav1.ListOptions, open opener) error {
	if joined, _, _ := s.admit(w); joined {
		return nil
	}
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return ctx.Err()
	}
	joined, version, excluded := s.admit(w)
	switch {
	case joined:
		return nil
	case w.isStopped():
		return errStopped
	}
	options.ResourceVersion = version
	var events watch.Interface
	var first []watch.Event
	excluded, err := s.exclusions.try(ctx, excluded, func(excluded []string) (err error) {
		events, first, err = beginProven(ctx, leaveOut(options, excluded), open)
		return err
	})
	if err != nil {
		return err
	}
	return s.resume(w, events, first, version, excluded)
}

// admit lets a member join if the watch of the stream has all events that it needs. Otherwise, it returns the version after which another watch
// must begin, and the namespaces that this watch may leave out.
func (s *stream) admit(w *member) (joined bool, version string, excluded []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version = w.version
	switch {
	case s.events == nil || w.isStopped():
	case isNewer(s.version, w.version):
	case slices.ContainsFunc(s.excluded, w.filter.hasNamespace):
		version = s.version
	default:
		s.members = append(s.members, w)
		return true, "", nil
	}
	shards := append([]Filter{w.filter}, s.former...)
	for _, m := range s.members {
		shards = append(shards, m.filter)
	}
	return false, version, s.exclusions.outside(shards)
}

// resume continues the stream with a watch that began after a version, for one more member. It has read the first events of the watch.
func (s *stream) resume(w *member, events watch.Interface, first []watch.Event, version string, excluded []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.isStopped() {
		go events.Stop() // it may wait for the network
		return errStopped
	}
	for _, m := range s.members {
		if isNewer(s.version, m.version) {
			m.version = s.version
		}
	}
	if s.events != nil {
		go s.events.Stop()
	}
	s.events, s.version, s.excluded, s.former = events, version, excluded, nil
	s.members = append(s.members, w)
	go s.run(events, first)
	return nil
}

// run passes the events of a watch until it ends. The members then return with the version of the last event.
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
	if s.events != events {
		return
	}
	for _, w := range s.members {
		if !isNewer(w.version, s.version) {
			w.send(s.objects.bookmark(s.version))
		}
	}
	s.dismiss()
}

// pass sends an event to the members that have not got it. An error ends the watches of all members. pass returns false if the stream has
// ended, or continues with another watch.
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
	if len(receivers) == 0 {
		s.exclusions.discarded(event.Object)
	}
	for i, w := range receivers {
		w.send(sent[i])
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
