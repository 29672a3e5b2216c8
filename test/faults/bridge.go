package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
)

// call is a request to the API server, as plain data: it crosses the border of a bubble.
type call struct {
	method, path, contentType string // the path with its query
	body                      []byte
	resource                  int
	history                   *history
}

// reply is the answer. err says that there is none.
type reply struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// bridge leads out of the bubbles: goroutines in none of them carry out calls. Who waits
// for one is not idle, so that no clock moves meanwhile.
type bridge struct {
	observer *observer
	free     chan *carrier
}

// carrier carries out one call at a time.
type carrier struct {
	calls   chan call
	replies chan reply
}

func newBridge(o *observer, carriers int) *bridge {
	b := &bridge{observer: o, free: make(chan *carrier, carriers)}
	for range carriers {
		c := &carrier{make(chan call), make(chan reply)}
		go func() {
			for call := range c.calls {
				c.replies <- b.carry(call)
			}
		}()
		b.free <- c
	}
	return b
}

// do carries out a call. When it returns, the history has what came of it.
func (b *bridge) do(c call) reply {
	carrier := <-b.free
	defer func() { b.free <- carrier }()
	carrier.calls <- c
	return <-carrier.replies
}

func (b *bridge) carry(c call) reply {
	request, err := http.NewRequest(c.method, b.observer.base+c.path, bytes.NewReader(c.body))
	if err != nil {
		return reply{err: err}
	}
	request.Header.Set("Accept", "application/json")
	if c.contentType != "" {
		request.Header.Set("Content-Type", c.contentType)
	}
	response, err := b.observer.client.Do(request)
	if err != nil {
		return reply{err: err}
	}
	defer response.Body.Close()
	r := reply{status: response.StatusCode, header: response.Header}
	if r.body, err = io.ReadAll(response.Body); err != nil {
		return reply{err: err}
	}
	if c.method == http.MethodGet || c.history == nil || c.resource < 0 || r.status >= http.StatusMultipleChoices {
		return r
	}
	if err := b.settled(c, r); err != nil {
		return reply{err: err}
	}
	return r
}

// settled waits until the history has what a write came to.
func (b *bridge) settled(c call, r reply) error {
	var status struct {
		Kind    string
		Details struct{ UID types.UID }
	}
	if err := json.Unmarshal(r.body, &status); err != nil {
		return fmt.Errorf("reading an answer: %w", err)
	}
	if status.Kind == "Status" {
		return b.observer.await(func() bool { return c.history.gone(status.Details.UID) })
	}
	object, err := readObject(c.resource, r.body)
	if err != nil {
		return err
	}
	return b.observer.await(func() bool {
		if ends(c, object) {
			return c.history.gone(object.UID)
		}
		return c.history.reached(object.UID, object.version)
	})
}

// ends tells whether the write that was answered with an object was its end: the last
// finalizer was taken off one that was being deleted, or there was none. No Pod here is
// on a node, for which its deletion would wait.
func ends(c call, o *object) bool {
	deleting := c.method == http.MethodDelete || o.DeletionTimestamp != nil
	return deleting && len(o.Finalizers) == 0 && resources[c.resource].Resource != "namespaces"
}
