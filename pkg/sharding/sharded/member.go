package sharded

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
)

// member is a watch of the objects of a shard.
type member struct {
	stream *stream
	filter Filter
	began  string // the version with which the member joined
	// version is a resource version up to which the member has got all events. The member gets only later events of the
	// stream.
	version string
	some    chan watch.Event // of the shard
	stopped chan struct{}
	stop    sync.Once
}

func newMember(s *stream, filter Filter, version string) *member {
	return &member{
		stream: s, filter: filter, began: version, version: version,
		some: make(chan watch.Event), stopped: make(chan struct{}),
	}
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

// forward passes the events of own, which is a watch for this member alone, until the initial events have ended.
func (w *member) forward(own watch.Interface) {
	defer own.Stop()
	defer close(w.some)
	for {
		select {
		case <-w.stopped:
			return
		case event, open := <-own.ResultChan():
			if !open {
				return
			}
			if some, ok := w.filter.event(event); ok {
				w.send(some)
			} else {
				w.stream.exclusions.discarded(event.Object)
			}
			if endsInitialEvents(event) {
				// This event follows the initial events, because an informer lists again after a watch without a further event.
				w.send(w.stream.objects.bookmark(versionOf(event.Object)))
				return
			}
		}
	}
}

// send sends an event unless the member has been stopped. An informer receives each event, or stops its watch.
func (w *member) send(event watch.Event) {
	select {
	case w.some <- event:
	case <-w.stopped:
	}
}

// versionOf returns the resource version of an object, or "" if it has none.
func versionOf(object runtime.Object) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return accessor.GetResourceVersion()
}

// isVersion reports whether a resource version is a specific one, unlike "" and "0".
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
