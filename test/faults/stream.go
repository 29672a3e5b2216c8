package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

// stream is a watch of a process.
type stream struct {
	selection
	process *process
	pipe    *io.PipeWriter
	next    int             // the index in the history of the next event to deliver
	known   map[string]bool // the names of the objects that the process has observed
	frozen  bool            // no events are delivered
}

// selection holds the parameters of a list or watch.
type selection struct {
	resource int
	selector labels.Selector
	fields   fields.Selector
	// metadataOnly is set if the process requests only the metadata.
	metadataOnly bool
}

func parseSelection(request *http.Request, resource int) (selection, error) {
	query := request.URL.Query()
	selector, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return selection{}, err
	}
	ofFields, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return selection{}, err
	}
	for _, requirement := range ofFields.Requirements() {
		if requirement.Field != "metadata.namespace" {
			return selection{}, fmt.Errorf("unsupported field %s", requirement.Field)
		}
	}
	metadataOnly := strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadata")
	return selection{resource, selector, ofFields, metadataOnly}, nil
}

// matches reports whether the selectors match an object. The only field that a field selector can use is the namespace.
func (sel selection) matches(o metadata) bool {
	return sel.selector.Matches(labels.Set(o.Labels)) && sel.fields.Matches(fields.Set{"metadata.namespace": o.Namespace})
}

// encode returns an object in JSON, reduced to its metadata if metadataOnly is set.
func (sel selection) encode(raw json.RawMessage) (json.RawMessage, error) {
	if !sel.metadataOnly {
		return raw, nil
	}
	var partial struct {
		Kind       string          `json:"kind"`
		APIVersion string          `json:"apiVersion"`
		Metadata   json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &partial); err != nil {
		return nil, err
	}
	partial.Kind, partial.APIVersion = "PartialObjectMetadata", metav1.SchemeGroupVersion.String()
	return json.Marshal(partial)
}

// list responds to a list with the objects that exist at the snapshot of the process.
func (p *process) list(sel selection) (*http.Response, error) {
	objects, _ := p.run.history.objects(sel.resource, p.snapshot.Load())
	items := []json.RawMessage{}
	for _, o := range objects {
		if !sel.matches(o.metadata) {
			continue
		}
		item, err := sel.encode(o.raw)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	r := resources[sel.resource]
	kind, version := r.kind+"List", r.GroupVersion().String()
	if sel.metadataOnly {
		kind, version = "PartialObjectMetadataList", metav1.SchemeGroupVersion.String()
	}
	body, err := json.Marshal(map[string]any{
		"kind": kind, "apiVersion": version,
		"metadata": map[string]string{"resourceVersion": p.run.listVersion(p.snapshot.Load())}, "items": items,
	})
	return httpResponse(http.StatusOK, body), err
}

// watch responds to a watch with a stream. Informers list with a watch that sends the initial state as events
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#streaming-lists).
func (p *process) watch(sel selection, query url.Values) (*http.Response, error) {
	reader, writer := io.Pipe()
	objects, next := p.run.history.objects(sel.resource, p.snapshot.Load())
	s := &stream{selection: sel, process: p, pipe: writer, next: next, known: map[string]bool{}}
	var initial []json.RawMessage
	for _, o := range objects {
		if !sel.matches(o.metadata) {
			continue
		}
		s.known[o.Name] = true
		encoded, err := sel.encode(o.raw)
		if err != nil {
			return nil, err
		}
		initial = append(initial, watchEvent(watch.Added, encoded))
	}
	if query.Get("sendInitialEvents") != "true" {
		initial = nil
	} else {
		initial = append(initial, p.bookmark(sel))
	}
	go func() {
		for _, f := range initial {
			_, _ = writer.Write(f) // an error means that the process has ended
		}
		p.addStream(s)
	}()
	resp := httpResponse(http.StatusOK, nil)
	resp.Body, resp.ContentLength = reader, -1
	return resp, nil
}

// bookmark returns the event that marks the end of the initial state.
func (p *process) bookmark(sel selection) json.RawMessage {
	r := resources[sel.resource]
	kind, version := r.kind, r.GroupVersion().String()
	if sel.metadataOnly {
		kind, version = "PartialObjectMetadata", metav1.SchemeGroupVersion.String()
	}
	object, _ := json.Marshal(map[string]any{ // strings and maps can always be encoded
		"kind": kind, "apiVersion": version,
		"metadata": map[string]any{
			"resourceVersion": p.run.listVersion(p.snapshot.Load()),
			"annotations":     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		},
	})
	return watchEvent(watch.Bookmark, object)
}

func watchEvent(kind watch.EventType, object json.RawMessage) json.RawMessage {
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", kind, object)
}

// nextEvent returns the next event to deliver. An object that begins to match the selector is Added, and an object that
// stops matching the selector is Deleted. ok is false if there is no event.
func (s *stream) nextEvent() (e event, ok bool) {
	for !s.frozen && s.process.snapshot.Load() == newestVersion {
		if e, ok = s.process.run.history.eventAt(s.resource, s.next); !ok {
			return e, false
		}
		matches := e.kind != watch.Deleted && s.matches(e.metadata)
		switch wasKnown := s.known[e.Name]; {
		case matches && wasKnown:
			e.kind = watch.Modified
			return e, true
		case matches:
			e.kind = watch.Added
			return e, true
		case wasKnown:
			e.kind = watch.Deleted
			return e, true
		}
		s.next++ // the selector does not match the object, and the process does not know it
	}
	return event{}, false
}

// markDelivered records that an event is delivered or dropped.
func (s *stream) markDelivered(e event) {
	s.next++
	s.known[e.Name] = e.kind != watch.Deleted
}

// send sends an event to the process.
func (s *stream) send(e event) {
	encoded, err := s.encode(e.raw)
	if err != nil {
		s.process.run.addViolation("encoding an event: %v", err)
		return
	}
	_, _ = s.pipe.Write(watchEvent(e.kind, encoded)) // an error means that the process has ended
}

// expire ends the watch with a 410, so that the informer lists again.
func (s *stream) expire() {
	// plain data can always be encoded
	status, _ := json.Marshal(failureStatus(http.StatusGone, metav1.StatusReasonExpired))
	_, _ = s.pipe.Write(watchEvent(watch.Error, status))
	s.process.removeStream(s)
}

// httpResponse returns a response of the API server.
func httpResponse(status int, body []byte) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// failureStatus returns the body of an error response.
func failureStatus(code int, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "this is a test",
	}
}
