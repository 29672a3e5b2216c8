package sharded

import (
	"context"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Streams are watches that the shards of a process share. Each stream receives the events of all its shards, so that
// the process has one watch of each type, and decodes each event once. Streams are safe for concurrent use.
type Streams struct {
	exclusions exclusions // of all streams, and of the lists for their shards

	mu  sync.Mutex
	all map[source]*stream
}

// NewStreams returns the Streams of a process.
func NewStreams() *Streams { return &Streams{exclusions: newExclusions(), all: map[source]*stream{}} }

// source identifies the objects of a stream.
type source struct {
	of                        string       // their resource
	object                    reflect.Type // of an event
	namespace, labels, fields string
}

// bookmark returns a bookmark with a resource version, in the type of the objects.
func (s source) bookmark(version string) watch.Event {
	object := reflect.New(s.object.Elem()).Interface().(runtime.Object)
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetResourceVersion(version)
	}
	return watch.Event{Type: watch.Bookmark, Object: object}
}

// opener begins a watch of all shards.
type opener func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)

func (s *Streams) of(objects source) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[objects] == nil {
		s.all[objects] = &stream{objects: objects, exclusions: s.exclusions, opening: make(chan struct{}, 1)}
	}
	return s.all[objects]
}
