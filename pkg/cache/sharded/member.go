package sharded

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// sendPatience is how long a stream waits for a member that does not receive an event. The other members wait too, so the stream then stops
// this member. An informer receives each event at once, except while it stores its list.
const sendPatience = time.Minute

// member is a watch of the objects of a shard.
type member struct {
	stream *stream
	filter Filter
	// version is the resource version of the latest event that the member has got, apart from those that it gets from the present watch of the
	// stream. Before the first event, it is the version at which the watch began. A member joins only with a valid version. It has none while
	// it reads the initial events.
	version string
	some    chan watch.Event // of the shard
	stopped chan struct{}
	stop    sync.Once
}

func newMember(s *stream, filter Filter, options metav1.ListOptions) *member {
	w := &member{stream: s, filter: filter, some: make(chan watch.Event), stopped: make(chan struct{})}
	if !ptr.Deref(options.SendInitialEvents, false) {
		w.version = options.ResourceVersion
	}
	return w
}

// ResultChan implements watch.Interface.
func (w *member) ResultChan() <-chan watch.Event { return w.some }

// Stop implements watch.Interface. It does not wait for other members.
func (w *member) Stop() {
	w.stop.Do(func() {
		close(w.stopped)
		go w.stream.leave(w)
	})
}

func (w *member) isStopped() bool {
	select {
	case <-w.stopped:
		return true
	default:
		return false
	}
}

// catchUp reads the member's own watch until its initial events have ended, and then calls join.
func (w *member) catchUp(ctx context.Context, own watch.Interface, join func(context.Context) error) {
	for !isVersion(w.version) && !w.isStopped() {
		select {
		case event, open := <-own.ResultChan():
			if open {
				w.receive(event)
			} else {
				w.Stop()
			}
		case <-w.stopped:
		}
	}
	own.Stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-w.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	if w.isStopped() || join(ctx) != nil { // the informer watches again
		close(w.some)
	}
}

// receive handles an event of its own watch.
func (w *member) receive(event watch.Event) {
	ends := endsInitialEvents(event)
	if some, ok := w.filter.event(event); ok {
		w.send(some)
	} else {
		w.stream.exclusions.discarded(event.Object)
	}
	if ends {
		w.version, _ = versionOf(event)
	}
}

// next returns what the member gets of an event of the stream. For an error, version is that of the event before. ok is false if it gets nothing.
func (w *member) next(event watch.Event, version string) (some watch.Event, ok bool) {
	switch {
	case w.isStopped(), isNewer(w.version, version):
		return event, false
	case event.Type == watch.Error:
		return event, true
	case w.version == version && event.Type != watch.Bookmark:
		return event, false
	default:
		return w.filter.event(event)
	}
}

func (w *member) send(event watch.Event) {
	patience := time.NewTimer(sendPatience)
	defer patience.Stop()
	select {
	case w.some <- event:
	case <-w.stopped:
	case <-patience.C:
		w.Stop()
	}
}

// lasting is a watch that does not end with the context in which it began. A stream may continue it. The caller must stop it.
type lasting struct {
	watch.Interface
	cancel context.CancelFunc
}

// beginLasting begins a watch. It returns an error if ctx ends before the watch has begun.
func beginLasting(ctx context.Context, options metav1.ListOptions, open opener) (watch.Interface, error) {
	lastingCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, cancel)
	events, err := open(lastingCtx, options)
	ended := !detach()
	if err != nil {
		cancel()
		return nil, err
	}
	own := &lasting{events, cancel}
	if ended {
		own.Stop()
		return nil, ctx.Err()
	}
	return own, nil
}

// Stop implements watch.Interface.
func (l *lasting) Stop() {
	l.Interface.Stop()
	l.cancel()
}

// versionOf returns the resource version of an event. An error has none.
func versionOf(event watch.Event) (string, error) {
	if event.Type == watch.Error {
		return "", nil
	}
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return "", fmt.Errorf("reading an event: %w", err)
	}
	version := object.GetResourceVersion()
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return "", fmt.Errorf("reading an event: %w", err)
	}
	return version, nil
}

// isVersion reports whether a resource version is a certain one, unlike "" and "0".
func isVersion(version string) bool {
	_, err := resourceversion.CompareResourceVersion(version, version)
	return err == nil
}

// isNewer reports whether a resource version is newer than another one.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// endsInitialEvents reports whether an event is the bookmark after the initial events of a watch.
func endsInitialEvents(event watch.Event) bool {
	if event.Type != watch.Bookmark {
		return false
	}
	object, err := meta.Accessor(event.Object)
	return err == nil && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}
