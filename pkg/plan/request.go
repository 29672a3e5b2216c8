package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/controller/apipath"
)

// request is a request of a client, with its body.
type request struct {
	*http.Request
	apipath.Path
	base string // of the Server
	body []byte
	next http.RoundTripper
}

func (q *request) ref() ref { return ref{q.Resource.GroupResource(), q.Namespace, q.Name} }

func (q *request) kind() schema.GroupKind {
	return schema.GroupKind{Group: q.Resource.Group, Kind: q.Resource.Resource}
}

func (q *request) notFound() *apierrors.StatusError {
	return apierrors.NewNotFound(q.Resource.GroupResource(), q.Name)
}

// isPartial reports whether the client requests only the metadata of objects.
func (q *request) isPartial() bool {
	return strings.Contains(q.Header.Get("Accept"), "as="+partialKind)
}

// asRequested answers with an object in the form that the client requests.
func asRequested(q *request, obj *unstructured.Unstructured) *answer {
	return found(http.StatusOK, selection{partial: q.isPartial()}.form(obj))
}

// answer is the response to a request.
type answer struct {
	code int
	body []byte
	// stream is the body of the response to a watch.
	stream io.ReadCloser
	// header are the headers of the response of the API server, such as Retry-After and Warning.
	header http.Header
}

// isTemporary reports whether the client tries again: see the function of the same name of rest.Request.
func (a *answer) isTemporary() bool { return a.header.Get("Retry-After") != "" }

func found(code int, obj *unstructured.Unstructured) *answer {
	body, err := json.Marshal(obj.Object)
	if err != nil {
		return refuse(apierrors.NewInternalError(err))
	}
	return &answer{code: code, body: body}
}

func refuse(err *apierrors.StatusError) *answer {
	status := err.Status()
	status.APIVersion, status.Kind = "v1", "Status"
	body, _ := json.Marshal(status) // it has only strings and numbers
	return &answer{code: int(status.Code), body: body}
}

// response returns the answer as the response to r.
func (a *answer) response(r *http.Request) *http.Response {
	body := a.stream
	if body == nil {
		body = io.NopCloser(bytes.NewReader(a.body))
	}
	header := http.Header{"Content-Type": {"application/json"}}
	for _, name := range []string{"Retry-After", "Warning"} {
		if values := a.header.Values(name); len(values) > 0 {
			header[name] = values
		}
	}
	return &http.Response{
		Status: http.StatusText(a.code), StatusCode: a.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: body, ContentLength: -1, Request: r,
	}
}

// object returns the object in the body. The object is nil if the body is a Status, as after some deletions.
func (a *answer) object() (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(a.body); err != nil {
		return nil, fmt.Errorf("decoding a response of the API server: %w", err)
	}
	if obj.GetKind() == "Status" && obj.GetAPIVersion() == "v1" {
		return nil, nil
	}
	return obj, nil
}

func (a *answer) ok() bool { return a.code >= 200 && a.code < 300 }

// status returns the Status in the body of an answer that is not ok.
func (a *answer) status() *apierrors.StatusError {
	err := &apierrors.StatusError{}
	if json.Unmarshal(a.body, &err.ErrStatus) != nil || err.ErrStatus.Kind != "Status" {
		err.ErrStatus = metav1.Status{Code: int32(a.code), Message: strings.TrimSpace(string(a.body))}
	}
	return err
}

// forward sends a request to the API server, with the headers of q.
func (q *request) forward(method string, to *url.URL, body []byte) (*answer, error) {
	r := q.Clone(q.Context())
	r.Method, r.URL, r.Body, r.ContentLength, r.GetBody = method, to, nil, int64(len(body)), nil
	if len(body) > 0 {
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, _ = r.GetBody() // it returns no error
	}
	if method != q.Method {
		r.Header.Set("Content-Type", "application/json")
	}
	accepted := strings.Split(r.Header.Get("Accept"), ",")
	accepted = slices.DeleteFunc(accepted, func(form string) bool { return strings.Contains(form, "protobuf") })
	r.Header.Set("Accept", strings.Join(accepted, ","))
	response, err := q.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	a := &answer{code: response.StatusCode, header: response.Header}
	a.body, err = io.ReadAll(response.Body)
	return a, err
}

// live reads the object from the API server, whatever form and part of it the client requests.
func (q *request) live() (*answer, error) {
	r := &request{Request: q.Clone(q.Context()), next: q.next}
	r.Header.Set("Accept", "application/json")
	return r.forward(http.MethodGet, q.urlOf(q.ref(), ""), nil)
}

// urlOf returns the URL of an object, or of the collection if the object has no name. at must be of the resource of q.
func (q *request) urlOf(at ref, subresource string) *url.URL {
	parts := []string{q.base + "/apis", q.Resource.Group, q.Resource.Version}
	if q.Resource.Group == "" {
		parts = []string{q.base + "/api", q.Resource.Version}
	}
	if at.namespace != "" {
		parts = append(parts, "namespaces", at.namespace)
	}
	parts = append(parts, at.resource.Resource)
	for _, part := range []string{at.name, subresource} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	query := url.Values{}
	for _, kept := range []string{"fieldManager", "fieldValidation"} {
		if value := q.URL.Query().Get(kept); value != "" {
			query.Set(kept, value)
		}
	}
	to := *q.URL
	to.Path, to.RawPath, to.RawQuery = strings.Join(parts, "/"), "", query.Encode()
	return &to
}

// isDry reports whether a request of the client is a dry run itself.
func (q *request) isDry() bool { return q.URL.Query().Get("dryRun") != "" }

// dry returns the URL with dryRun=All.
func dry(to *url.URL) *url.URL {
	changed, query := *to, to.Query()
	query.Set("dryRun", metav1.DryRunAll)
	changed.RawQuery = query.Encode()
	return &changed
}
