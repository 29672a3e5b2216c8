package sharded

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/watch"
)

// upstream opens watches whose events a test sends.
type upstream struct {
	streams   *Streams
	err       error
	begun     []string // the versions and field selectors of all requests to begin a watch
	selectors []string // the shard selectors of these requests
	events    *watch.RaceFreeFakeWatcher
	opened    func() // is called when a watch has begun; nil does nothing
}

func newUpstream() *upstream { return &upstream{streams: NewStreams()} }

func (u *upstream) open(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	u.begun = append(u.begun, strings.TrimSpace(options.ResourceVersion+" "+options.FieldSelector))
	u.selectors = append(u.selectors, options.ShardSelector)
	if u.err != nil {
		return nil, u.err
	}
	u.events = watch.NewRaceFreeFake()
	if u.opened != nil {
		u.opened()
	}
	return u.events, nil
}

// stream returns the stream of the objects that upstream sends.
func (u *upstream) stream() *stream {
	return u.streams.of(source{object: reflect.TypeFor[*metav1.PartialObjectMetadata]()})
}

// watch begins the watch of a shard: of the namespaces with low or with high hashes, from a version on.
func (u *upstream) watch(ctx context.Context, low bool, version string) (watch.Interface, error) {
	return u.stream().watch(ctx, u.half(low), metav1.ListOptions{ResourceVersion: version}, u.open)
}

// join begins the watch of a shard, and reads it.
func (u *upstream) join(t *testing.T, low bool, version string) *reader {
	t.Helper()
	w, err := u.watch(t.Context(), low, version)
	r := read(t, w, err)
	t.Cleanup(r.Stop)
	return r
}

// discard records that an object of a namespace was discarded.
func (u *upstream) discard(namespace string) { u.streams.exclusions.discarded(object(namespace, 1)) }

// send sends a change of an object in each namespace, with consecutive versions, and then a bookmark with the last
// version.
func (u *upstream) send(version int, namespaces ...string) {
	for _, namespace := range namespaces {
		u.events.Modify(object(namespace, version))
		version++
	}
	u.events.Action(watch.Bookmark, object("", version-1))
	synctest.Wait()
}

// endInitialEvents sends the bookmark after the initial events of a watch.
func (u *upstream) endInitialEvents(version int) {
	end := object("", version)
	end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	u.events.Action(watch.Bookmark, end)
	synctest.Wait()
}

func object(namespace string, version int) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "it", ResourceVersion: fmt.Sprint(version)},
	}
}

// expect fails the test unless watches have begun after these versions, with these selectors.
func (u *upstream) expect(t *testing.T, watches ...string) {
	t.Helper()
	if !slices.Equal(u.begun, watches) {
		t.Errorf("watches began after %q, want %q", u.begun, watches)
	}
}

// reader receives the events of a watch.
type reader struct {
	watch.Interface
	got   []string
	ended bool
}

func read(t *testing.T, w watch.Interface, err error) *reader {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{Interface: w}
	go func() {
		for event := range w.ResultChan() {
			text := string(event.Type)
			if object, ok := event.Object.(*metav1.PartialObjectMetadata); ok {
				text += " " + object.Namespace + " " + object.ResourceVersion
			}
			r.got = append(r.got, text)
		}
		r.ended = true
	}()
	return r
}

func (r *reader) expect(t *testing.T, who string, want ...string) {
	t.Helper()
	synctest.Wait()
	if fmt.Sprint(r.got) != fmt.Sprint(want) {
		t.Errorf("%s got %q, want %q", who, r.got, want)
	}
	r.got = nil
}

// half returns the shard of the namespaces whose hashes are lower than the hash of b, or the shard of all other
// namespaces.
func (u *upstream) half(low bool) Filter {
	r := sharding.ShardRangeRequirement{
		Key: "object.metadata.namespace", Start: "0x0000000000000000", End: "0x" + sharding.HashField("b"),
	}
	if !low {
		r.Start, r.End = r.End, "0x10000000000000000"
	}
	return NewFilter(sharding.NewSelector(r), u.streams)
}

// low and high are namespaces in the two shards of half.
const low, high = "a", "default"
