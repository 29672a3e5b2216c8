package sharded

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// filtered is a watch with some of the events of another watch. Unlike the result of watch.Filter, it leaves no goroutine
// behind if nobody receives its last event.
type filtered struct {
	all     watch.Interface
	filter  watch.FilterFunc
	some    chan watch.Event
	stopped chan struct{}
	stop    sync.Once
}

func newWatch(all watch.Interface, filter watch.FilterFunc) watch.Interface {
	w := &filtered{all: all, filter: filter, some: make(chan watch.Event), stopped: make(chan struct{})}
	go w.run()
	return w
}

// ResultChan implements watch.Interface.
func (w *filtered) ResultChan() <-chan watch.Event { return w.some }

// Stop implements watch.Interface.
func (w *filtered) Stop() {
	w.stop.Do(func() {
		close(w.stopped)
		w.all.Stop()
	})
}

func (w *filtered) run() {
	defer close(w.some)
	for event := range w.all.ResultChan() {
		event, ok := w.filter(event)
		if !ok {
			continue
		}
		select {
		case w.some <- event:
		case <-w.stopped:
			return
		}
	}
}
