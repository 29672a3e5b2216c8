package sharded

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// sendPatience is how long a stream waits for members that do not receive an event. The other members wait too, so the
// stream then stops these members. An informer receives each event at once, except while it stores its list.
const sendPatience = time.Minute

// member is a watch of the objects of a shard.
type member struct {
	stream *stream
	filter Filter
	// version is a resource version up to which the member has got all events. It skips events of the stream up to this
	// version. A member joins only with a version. It has none while it reads the initial events.
	version string
	began   string           // the version with which the member joined
	joined  chan struct{}    // is closed when the member joins
	some    chan watch.Event // of the shard
	stopped chan struct{}
	stop    sync.Once
}

func newMember(s *stream, filter Filter, options metav1.ListOptions) *member {
	w := &member{
		stream: s, filter: filter, joined: make(chan struct{}), some: make(chan watch.Event), stopped: make(chan struct{}),
	}
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

func (w *member) isStopped() bool { return isClosed(w.stopped) }

// hasJoined reports whether the member has joined its stream, which may have ended since.
func (w *member) hasJoined() bool { return isClosed(w.joined) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// catchUp reads the member's own watch until its initial events have ended, and then calls join. The caller has read
// the first events of own. If something fails, the member's watch ends.
func (w *member) catchUp(
	ctx context.Context, own watch.Interface, first []watch.Event, join func(context.Context) error,
) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-w.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	for _, event := range first {
		w.receive(event)
	}
	caughtUp := w.readInitial(own)
	go own.Stop() // it may wait for the network
	if caughtUp {
		// waits until the informer has stored the initial events
		w.send(w.stream.objects.bookmark(w.version), time.Now().Add(sendPatience))
		if join(ctx) == nil {
			return
		}
	}
	close(w.some)
}

// readInitial reads the member's own watch until its initial events have ended. It returns false if the watch ends
// before, or is stopped.
func (w *member) readInitial(own watch.Interface) bool {
	for !isVersion(w.version) {
		select {
		case event, open := <-own.ResultChan():
			if !open {
				return false
			}
			w.receive(event)
		case <-w.stopped:
			return false
		}
	}
	return true
}

// receive handles an event of its own watch.
func (w *member) receive(event watch.Event) {
	ends := endsInitialEvents(event)
	if some, ok := w.filter.event(event); ok {
		w.send(some, time.Now().Add(sendPatience))
	} else {
		w.stream.exclusions.discarded(event.Object)
	}
	if ends {
		w.version, _ = versionOf(event)
	}
}

// next returns what the member gets of an event of the stream. For an error, version is that of the event before. ok is
// false if it gets nothing.
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

// send sends an event unless the member has been stopped. It stops a member that does not receive until the deadline: a
// member that has missed an event must not get a later one.
func (w *member) send(event watch.Event, deadline time.Time) {
	if w.isStopped() {
		return
	}
	select {
	case w.some <- event: // even if the deadline has passed while the stream waited for another member
		return
	default:
	}
	patience := time.NewTimer(time.Until(deadline))
	defer patience.Stop()
	select {
	case w.some <- event:
	case <-w.stopped:
	case <-patience.C:
		w.Stop()
	}
}
