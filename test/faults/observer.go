package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// object is one version of an object, as the API server has told of it.
type object struct {
	resource int
	version  uint64
	raw      json.RawMessage
	metadata
}

// metadata is what the harness reads of all objects.
type metadata struct {
	Namespace, Name, ResourceVersion string
	UID                              types.UID
	Generation                       int64
	Labels, Annotations              map[string]string
	OwnerReferences                  []metav1.OwnerReference
	Finalizers                       []string
	DeletionTimestamp                *metav1.Time
}

// scope is the namespace of a run: that of the object, or the object itself.
func (o *object) scope() string {
	if resources[o.resource].clusterWide {
		return o.Name
	}
	return o.Namespace
}

func readObject(resource int, raw json.RawMessage) (*object, error) {
	var read struct{ Metadata metadata }
	if err := json.Unmarshal(raw, &read); err != nil {
		return nil, fmt.Errorf("reading an object: %w", err)
	}
	version, err := strconv.ParseUint(read.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reading the version of %s: %w", read.Metadata.Name, err)
	}
	return &object{resource, version, raw, read.Metadata}, nil
}

// event is what happened to an object.
type event struct {
	kind watch.EventType
	*object
}

// observer watches the API server for all runs, and keeps what it tells of each. Its
// goroutines are in no bubble.
type observer struct {
	base   string
	client *http.Client

	mu      sync.Mutex
	changed *sync.Cond
	scopes  map[string]*history
	broken  error
}

// newObserver returns an observer that sees all that happens from now on.
func newObserver(ctx context.Context, config *rest.Config) (*observer, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	o := &observer{base: config.Host, client: client, scopes: map[string]*history{}}
	o.changed = sync.NewCond(&o.mu)
	for i := range resources {
		version, err := o.newest(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", resources[i].Resource, err)
		}
		go o.watch(ctx, i, version)
	}
	return o, nil
}

func (o *observer) newest(ctx context.Context, resource int) (string, error) {
	body, err := o.get(ctx, resource, url.Values{"limit": {"1"}})
	if err != nil {
		return "", err
	}
	defer body.Close()
	var list metav1.PartialObjectMetadataList
	err = json.NewDecoder(body).Decode(&list)
	return list.ResourceVersion, err
}

func (o *observer) get(ctx context.Context, resource int, query url.Values) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.base+resources[resource].path("", "", "")+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	for {
		response, err := o.client.Do(request)
		if err != nil {
			return nil, err
		}
		if response.StatusCode == http.StatusOK {
			return response.Body, nil
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusTooManyRequests {
			return nil, errors.New(response.Status)
		}
		select { // the API server says so of kinds that were defined just now
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(again):
		}
	}
}

// again is when a request that the API server puts off is sent once more.
const again = 100 * time.Millisecond

// watch goes on until ctx ends: the API server ends a watch now and then.
func (o *observer) watch(ctx context.Context, resource int, version string) {
	for ctx.Err() == nil {
		body, err := o.get(ctx, resource, url.Values{"watch": {"1"}, "resourceVersion": {version}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {"3600"}})
		if err == nil {
			version, err = o.follow(body, resource, version)
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && ctx.Err() == nil {
			o.fail(fmt.Errorf("watching %s: %w", resources[resource].Resource, err))
			return
		}
	}
}

func (o *observer) follow(body io.ReadCloser, resource int, version string) (string, error) {
	defer body.Close()
	events := json.NewDecoder(body)
	for {
		var e struct {
			Type   watch.EventType
			Object json.RawMessage
		}
		if err := events.Decode(&e); err != nil {
			return version, err
		}
		if e.Type == watch.Error {
			return version, errors.New(string(e.Object))
		}
		object, err := readObject(resource, e.Object)
		if err != nil {
			return version, err
		}
		version = object.ResourceVersion
		if e.Type != watch.Bookmark {
			o.note(event{e.Type, object})
		}
	}
}

func (o *observer) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.broken = errors.Join(o.broken, err)
	o.changed.Broadcast()
}

func (o *observer) note(e event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h := o.scopes[e.scope()]; h != nil {
		h.add(e)
		o.changed.Broadcast()
	}
}

// failure is why nothing can be observed any more, if so.
func (o *observer) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.broken
}

// open begins the history of a scope, and forget ends it.
func (o *observer) open(scope string) *history {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := newHistory()
	o.scopes[scope] = h
	return h
}

func (o *observer) forget(scope string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.scopes, scope)
}

// patience is how long the API server may take to tell of what it has done. It is no
// measure of anything.
const patience = 30 * time.Second

// await waits until a history has what a write has come to.
func (o *observer) await(what func() bool) error {
	overdue := time.AfterFunc(patience, func() { o.fail(errors.New("the API server does not tell of what it has done")) })
	defer overdue.Stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for !what() && o.broken == nil {
		o.changed.Wait()
	}
	return o.broken
}
