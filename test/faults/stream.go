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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

// stream is a watch of a process.
type stream struct {
	wants
	process *process
	pipe    *io.PipeWriter
	next    int             // the index in the history of the first event that was not delivered
	has     map[string]bool // the names of what the process knows to be there
	frozen  bool            // nothing is delivered
}

// wants is what a list or watch asks for.
type wants struct {
	resource int
	selector labels.Selector
	// partial says that the process wants no more than the metadata.
	partial bool
}

func wanted(request *http.Request, resource int) (wants, error) {
	query := request.URL.Query()
	if query.Has("fieldSelector") {
		return wants{}, fmt.Errorf("there are no field selectors here: %s", request.URL)
	}
	selector, err := labels.Parse(query.Get("labelSelector"))
	return wants{resource, selector, strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadata")}, err
}

// shown is an object as a process gets it.
func (w wants) shown(raw json.RawMessage) (json.RawMessage, error) {
	if !w.partial {
		return raw, nil
	}
	var part struct {
		Kind       string          `json:"kind"`
		APIVersion string          `json:"apiVersion"`
		Metadata   json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &part); err != nil {
		return nil, err
	}
	part.Kind, part.APIVersion = "PartialObjectMetadata", metav1.SchemeGroupVersion.String()
	return json.Marshal(part)
}

// list answers a list as of a version.
func (p *process) list(w wants) (*http.Response, error) {
	objects, _ := p.run.history.objects(w.resource, p.view.Load())
	items := []json.RawMessage{}
	for _, o := range objects {
		if !w.selector.Matches(labels.Set(o.Labels)) {
			continue
		}
		item, err := w.shown(o.raw)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	r := resources[w.resource]
	kind, version := r.kind+"List", r.GroupVersion().String()
	if w.partial {
		kind, version = "PartialObjectMetadataList", metav1.SchemeGroupVersion.String()
	}
	body, err := json.Marshal(map[string]any{
		"kind": kind, "apiVersion": version,
		"metadata": map[string]string{"resourceVersion": p.run.versionAt(p.view.Load())}, "items": items,
	})
	return response(http.StatusOK, body), err
}

// watch opens a stream. One that begins with what is there is what informers do instead
// of a list (https://kubernetes.io/docs/reference/using-api/api-concepts/#streaming-lists).
func (p *process) watch(w wants, query url.Values) (*http.Response, error) {
	reader, writer := io.Pipe()
	objects, next := p.run.history.objects(w.resource, p.view.Load())
	s := &stream{wants: w, process: p, pipe: writer, next: next, has: map[string]bool{}}
	var first []json.RawMessage
	for _, o := range objects {
		if !w.selector.Matches(labels.Set(o.Labels)) {
			continue
		}
		s.has[o.Name] = true
		shown, err := w.shown(o.raw)
		if err != nil {
			return nil, err
		}
		first = append(first, frame(watch.Added, shown))
	}
	if query.Get("sendInitialEvents") != "true" {
		first = nil
	} else {
		first = append(first, p.bookmark(w))
	}
	go func() {
		for _, f := range first {
			_, _ = writer.Write(f) // who does not read any more has ended
		}
		p.open(s)
	}()
	answer := response(http.StatusOK, nil)
	answer.Body, answer.ContentLength = reader, -1
	return answer, nil
}

// bookmark ends what is there.
func (p *process) bookmark(w wants) json.RawMessage {
	r := resources[w.resource]
	kind, version := r.kind, r.GroupVersion().String()
	if w.partial {
		kind, version = "PartialObjectMetadata", metav1.SchemeGroupVersion.String()
	}
	object, _ := json.Marshal(map[string]any{ // strings and maps can always be written
		"kind": kind, "apiVersion": version,
		"metadata": map[string]any{
			"resourceVersion": p.run.versionAt(p.view.Load()),
			"annotations":     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		},
	})
	return frame(watch.Bookmark, object)
}

func frame(kind watch.EventType, object json.RawMessage) json.RawMessage {
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", kind, object)
}

// pending is the next event that is to be delivered, as its selector sees it.
func (s *stream) pending() (e event, ok bool) {
	for !s.frozen && s.process.view.Load() == newestVersion {
		if e, ok = s.process.run.history.at(s.resource, s.next); !ok {
			return e, false
		}
		matches := e.kind != watch.Deleted && s.selector.Matches(labels.Set(e.Labels))
		switch had := s.has[e.Name]; {
		case matches && had:
			e.kind = watch.Modified
			return e, true
		case matches:
			e.kind = watch.Added
			return e, true
		case had:
			e.kind = watch.Deleted
			return e, true
		}
		s.next++ // it is none of this stream's
	}
	return event{}, false
}

// skip takes an event as delivered.
func (s *stream) skip(e event) {
	s.next++
	s.has[e.Name] = e.kind != watch.Deleted
}

// send delivers an event.
func (s *stream) send(e event) {
	shown, err := s.shown(e.raw)
	if err != nil {
		s.process.run.violate("an event cannot be read: %v", err)
		return
	}
	_, _ = s.pipe.Write(frame(e.kind, shown)) // who does not read any more has ended
}

// expire ends the watch for being too old, whereupon an informer lists anew.
func (s *stream) expire() {
	status, _ := json.Marshal(statusOf(http.StatusGone, metav1.StatusReasonExpired)) // it is plain data
	_, _ = s.pipe.Write(frame(watch.Error, status))
	s.process.drop(s)
}

// response is an answer of the API server.
func response(status int, body []byte) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// statusOf is how the API server says that it refuses a request.
func statusOf(code int, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "this is a test",
	}
}
