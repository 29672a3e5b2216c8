package sharded

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// filtered is a watch with some of the events of another watch. Unlike the result of watch.Filter, it leaves no goroutine
// behind if nobody receives its last event.
type filtered struct {
	filter watch.FilterFunc
	// follow returns the watch that follows the initial events, which ended with a version. Nil means the same watch.
	follow  func(version string) (watch.Interface, error)
	some    chan watch.Event
	stopped chan struct{}
	stop    sync.Once
}

func newWatch(all watch.Interface, filter watch.FilterFunc, follow func(version string) (watch.Interface, error)) watch.Interface {
	w := &filtered{filter: filter, follow: follow, some: make(chan watch.Event), stopped: make(chan struct{})}
	go w.run(all)
	return w
}

// ResultChan implements watch.Interface.
func (w *filtered) ResultChan() <-chan watch.Event { return w.some }

// Stop implements watch.Interface.
func (w *filtered) Stop() { w.stop.Do(func() { close(w.stopped) }) }

func (w *filtered) run(all watch.Interface) {
	defer close(w.some)
	version, ended := w.pass(all, w.filter, w.follow != nil)
	if !ended {
		return
	}
	next, err := w.follow(version)
	if err != nil {
		return // the informer begins a new watch
	}
	w.pass(next, func(event watch.Event) (watch.Event, bool) { return event, true }, false)
}

// pass sends the events of a watch until it ends, this watch is stopped, or, if initial is true, until the initial events have ended with a
// version.
func (w *filtered) pass(all watch.Interface, filter watch.FilterFunc, initial bool) (version string, ended bool) {
	defer all.Stop()
	for {
		select {
		case event, open := <-all.ResultChan():
			if !open {
				return "", false
			}
			some, ok := filter(event)
			if !ok {
				continue
			}
			select {
			case w.some <- some:
			case <-w.stopped:
				return "", false
			}
			if version, ended = endOfInitialEvents(event); initial && ended {
				return version, true
			}
		case <-w.stopped:
			return "", false
		}
	}
}

// endOfInitialEvents returns the version of a bookmark that ends the initial events of a watch.
func endOfInitialEvents(event watch.Event) (version string, ok bool) {
	if event.Type != watch.Bookmark {
		return "", false
	}
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return "", false
	}
	return object.GetResourceVersion(), object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}
