package sharded

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
)

// Streams are watches of the objects of all shards, which the shards of a process share, so that the process receives and decodes each
// event once. They are for the objects that the API server does not limit to a shard. The zero Streams are ready to use. They are safe for
// concurrent use.
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

// stream is a watch with subscribers, each of which has begun at a resource version of its own. The watch begins at the oldest one. A
// subscriber does not get events that it has already got.
type stream struct {
	mu          sync.Mutex
	events      watch.Interface // nil without subscribers
	cancel      context.CancelFunc
	version     string // of the latest event
	subscribers []*subscriber
}

// subscriber is a watch of the objects of a shard.
type subscriber struct {
	stream  *stream
	filter  Filter
	version string // of the latest event, including events of other shards
	some    chan watch.Event
	stopped chan struct{}
	stop    sync.Once
}

// join returns a watch of the objects of a shard that begins after options.ResourceVersion.
func (s *stream) join(ctx context.Context, filter Filter, options metav1.ListOptions, open opener) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	missed := s.events == nil
	if !missed {
		order, err := resourceversion.CompareResourceVersion(s.version, options.ResourceVersion)
		if err != nil {
			return nil, fmt.Errorf("joining a watch: %w", err)
		}
		missed = order > 0
	}
	if missed {
		if err := s.begin(ctx, options, open); err != nil {
			return nil, err
		}
	}
	w := &subscriber{stream: s, filter: filter, version: options.ResourceVersion, some: make(chan watch.Event), stopped: make(chan struct{})}
	s.subscribers = append(s.subscribers, w)
	return w, nil
}

// begin replaces the watch. The former one continues if that fails.
func (s *stream) begin(ctx context.Context, options metav1.ListOptions, open opener) error {
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the first subscriber
	defer context.AfterFunc(ctx, cancel)()
	events, err := open(whole, options)
	if err != nil {
		cancel()
		return err
	}
	s.end()
	s.events, s.cancel, s.version = events, cancel, options.ResourceVersion
	go s.run(events)
	return nil
}

// end ends the watch.
func (s *stream) end() {
	if s.events != nil {
		s.events.Stop()
		s.cancel()
		s.events = nil
	}
}

func (s *stream) run(events watch.Interface) {
	for event := range events.ResultChan() {
		if !s.pass(events, event) {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events == events {
		s.end()
		s.dismiss()
	}
}

// dismiss ends the watches of all subscribers.
func (s *stream) dismiss() {
	for _, w := range s.subscribers {
		close(w.some)
	}
	s.subscribers = nil
}

// pass sends an event to the subscribers that have not got it. It returns false if another watch has replaced the watch of the event.
func (s *stream) pass(events watch.Interface, event watch.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events != events {
		return false
	}
	if event.Type != watch.Error {
		version, err := s.after(event)
		if err != nil {
			event = watch.Event{Type: watch.Error, Object: &apierrors.NewInternalError(err).ErrStatus}
		} else {
			s.version = version
		}
	}
	var getters []*subscriber
	var sent []watch.Event
	for _, w := range s.subscribers {
		one, ok := w.next(event, s.version)
		if !ok {
			continue
		}
		if len(sent) > 0 {
			one.Object = one.Object.DeepCopyObject() // an informer may change its object
		}
		getters, sent = append(getters, w), append(sent, one)
	}
	for i, w := range getters {
		w.send(sent[i])
	}
	return true
}

// after returns the resource version of an event, which must be comparable with earlier ones.
func (s *stream) after(event watch.Event) (version string, err error) {
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return "", fmt.Errorf("reading an event: %w", err)
	}
	if _, err = resourceversion.CompareResourceVersion(s.version, object.GetResourceVersion()); err != nil {
		return "", fmt.Errorf("reading an event: %w", err)
	}
	return object.GetResourceVersion(), nil
}

// next returns what the subscriber gets of an event with a version. ok is false if it gets nothing.
func (w *subscriber) next(event watch.Event, version string) (of watch.Event, ok bool) {
	if event.Type == watch.Error {
		return event, true
	}
	order, err := resourceversion.CompareResourceVersion(version, w.version)
	if err != nil || order < 0 || order == 0 && event.Type != watch.Bookmark {
		return event, false
	}
	w.version = version
	return w.filter.event(event)
}

func (w *subscriber) send(event watch.Event) {
	select {
	case w.some <- event:
	case <-w.stopped:
	}
}

// ResultChan implements watch.Interface.
func (w *subscriber) ResultChan() <-chan watch.Event { return w.some }

// Stop implements watch.Interface. It does not wait until the stream, which may just begin a watch, knows.
func (w *subscriber) Stop() {
	w.stop.Do(func() {
		close(w.stopped)
		go w.stream.leave(w)
	})
}

func (s *stream) leave(w *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.subscribers, w)
	if i < 0 {
		return // the stream has ended
	}
	close(w.some)
	if s.subscribers = slices.Delete(s.subscribers, i, i+1); len(s.subscribers) == 0 {
		s.end()
	}
}
