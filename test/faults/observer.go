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

// object is one version of an object, as the API server sent it.
type object struct {
	resource int
	version  uint64
	raw      json.RawMessage
	metadata
}

// metadata holds the fields of an object's metadata that the harness reads.
type metadata struct {
	Namespace, Name, ResourceVersion string
	UID                              types.UID
	Generation                       int64
	Labels, Annotations              map[string]string
	OwnerReferences                  []metav1.OwnerReference
	Finalizers                       []string
	DeletionTimestamp                *metav1.Time
}

// runNamespace returns the namespace of the run that an object belongs to.
func (o *object) runNamespace() string {
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

// event is a change of an object.
type event struct {
	kind watch.EventType
	*object
}

// observer watches the API server for all runs, and keeps the history of each run. Its goroutines are outside of the
// bubbles.
type observer struct {
	host   string
	client *http.Client

	mu        sync.Mutex
	changed   *sync.Cond
	histories map[string]*history
	err       error
}

// newObserver returns an observer that records all events from now on.
func newObserver(ctx context.Context, config *rest.Config) (*observer, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	o := &observer{host: config.Host, client: client, histories: map[string]*history{}}
	o.changed = sync.NewCond(&o.mu)
	for i := range resources {
		version, err := o.currentVersion(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", resources[i].Resource, err)
		}
		go o.watch(ctx, i, version)
	}
	return o, nil
}

func (o *observer) currentVersion(ctx context.Context, resource int) (string, error) {
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		o.host+resources[resource].path("", "", "")+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	for {
		resp, err := o.client.Do(request)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusOK {
			return resp.Body, nil
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusTooManyRequests {
			return nil, errors.New(resp.Status)
		}
		select { // the API server may not serve new types yet
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(retryInterval):
		}
	}
}

// retryInterval is the time between two attempts of a request to which the API server responds with 429.
const retryInterval = 100 * time.Millisecond

// watch records the events of a resource until ctx ends or a watch fails. It watches again when the API server ends a
// watch.
func (o *observer) watch(ctx context.Context, resource int, version string) {
	for ctx.Err() == nil {
		body, err := o.get(ctx, resource, url.Values{
			"watch": {"1"}, "resourceVersion": {version}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {"3600"},
		})
		if err == nil {
			version, err = o.readEvents(body, resource, version)
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && ctx.Err() == nil {
			o.fail(fmt.Errorf("watching %s: %w", resources[resource].Resource, err))
			return
		}
	}
}

func (o *observer) readEvents(body io.ReadCloser, resource int, version string) (string, error) {
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
			o.addEvent(event{e.Type, object})
		}
	}
}

func (o *observer) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = errors.Join(o.err, err)
	o.changed.Broadcast()
}

func (o *observer) addEvent(e event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h := o.histories[e.runNamespace()]; h != nil {
		h.add(e)
		o.changed.Broadcast()
	}
}

// failure returns the errors of the observer, or nil. After an error, histories may be incomplete.
func (o *observer) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// startHistory starts the history of the run in a namespace, and endHistory ends it.
func (o *observer) startHistory(namespace string) *history {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := newHistory()
	o.histories[namespace] = h
	return h
}

func (o *observer) endHistory(namespace string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.histories, namespace)
}

// eventTimeout limits how long the API server may take to send the events of a write.
const eventTimeout = 30 * time.Second

// await waits until condition returns true. It returns an error after eventTimeout, or if the observer fails.
func (o *observer) await(condition func() bool) error {
	timeout := time.AfterFunc(eventTimeout, func() {
		o.fail(errors.New("the API server did not send the event of a write in time"))
	})
	defer timeout.Stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for !condition() && o.err == nil {
		o.changed.Wait()
	}
	return o.err
}
