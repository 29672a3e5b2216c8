package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// call is a request to the API server that the bridge sends outside of the bubble.
type call struct {
	method, path, contentType string // the path includes the query
	body                      []byte
	resource                  int // index in resources, or -1
	history                   *history
}

// writes reports whether a successful call causes an event. A dry run causes none, and its response may have no
// resourceVersion.
func (c call) writes() bool {
	return c.method != http.MethodGet && !strings.Contains(c.path, "dryRun=")
}

// response is the response to a call. If err is set, the other fields are empty.
type response struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// bridge sends calls from bubbles to the API server, in goroutines outside of the bubbles. A goroutine that waits for
// a response does not count as idle, so the clock of its bubble stands still.
type bridge struct {
	observer *observer
	free     chan *sender
}

// sender holds the channels of a goroutine that sends one call at a time.
type sender struct {
	calls     chan call
	responses chan response
}

func newBridge(o *observer, senders int) *bridge {
	b := &bridge{observer: o, free: make(chan *sender, senders)}
	for range senders {
		c := &sender{make(chan call), make(chan response)}
		go func() {
			for call := range c.calls {
				c.responses <- b.send(call)
			}
		}()
		b.free <- c
	}
	return b
}

// do sends a call and returns the response. After a successful write, do returns when the history of the call has the
// event of the write.
func (b *bridge) do(c call) response {
	if c.history != nil {
		c.history.setTime(time.Now())
	}
	sender := <-b.free
	defer func() { b.free <- sender }()
	sender.calls <- c
	return <-sender.responses
}

func (b *bridge) send(c call) response {
	request, err := http.NewRequest(c.method, b.observer.host+c.path, bytes.NewReader(c.body))
	if err != nil {
		return response{err: err}
	}
	request.Header.Set("Accept", "application/json")
	if c.contentType != "" {
		request.Header.Set("Content-Type", c.contentType)
	}
	resp, err := b.observer.client.Do(request)
	if err != nil {
		return response{err: err}
	}
	defer resp.Body.Close()
	r := response{status: resp.StatusCode, header: resp.Header}
	if r.body, err = io.ReadAll(resp.Body); err != nil {
		return response{err: err}
	}
	if c.history != nil {
		r.body = c.history.inBubbleTime(r.body)
	}
	if !c.writes() || c.history == nil || c.resource < 0 || r.status >= http.StatusMultipleChoices {
		return r
	}
	if err := b.awaitEvents(c, r); err != nil {
		return response{err: err}
	}
	return r
}

// awaitEvents waits until the history has the event of a successful write.
func (b *bridge) awaitEvents(c call, r response) error {
	var status struct {
		Kind    string
		Details struct{ UID types.UID }
	}
	if err := json.Unmarshal(r.body, &status); err != nil {
		return fmt.Errorf("reading a response: %w", err)
	}
	if status.Kind == "Status" {
		return b.observer.await(func() bool { return c.history.hasDeletion(status.Details.UID) })
	}
	object, err := readObject(c.resource, r.body)
	if err != nil {
		return err
	}
	return b.observer.await(func() bool {
		if removes(c, object) {
			return c.history.hasDeletion(object.UID)
		}
		return c.history.hasVersion(object.UID, object.version)
	})
}

// removes reports whether a write removed o, the object in the response: the write deleted an object without
// finalizers, or removed the last finalizer of an object that is being deleted. Deleted Pods are removed at once,
// because no Pod is assigned to a node. Deleted namespaces stay, because no namespace controller runs.
func removes(c call, o *object) bool {
	deleting := c.method == http.MethodDelete || o.DeletionTimestamp != nil
	return deleting && len(o.Finalizers) == 0 && resources[c.resource].Resource != "namespaces"
}
