package plan

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller/apipath"
)

// request is a request of a client, with its body.
type request struct {
	*http.Request
	apipath.Path
	body []byte
}

func (q *request) ref() ref { return ref{q.Resource.GroupResource(), q.Namespace, q.Name} }

// isPartial reports whether the client requests only the metadata of objects.
func (q *request) isPartial() bool {
	return strings.Contains(q.Header.Get("Accept"), "as="+partialKind.Kind)
}

// isIndependent reports whether the response does not depend on planned writes: the request is for a subresource other
// than the status, or creates a review that stores nothing, such as a SubjectAccessReview.
func (q *request) isIndependent() bool {
	isQuestion := q.Resource.Group == authorizationv1.GroupName || q.Resource.Group == "authentication.k8s.io"
	return isQuestion || q.Subresource != "" && q.Subresource != statusField
}

// isDryRun reports whether the operator itself sends the request as a dry run. It is then no planned write.
func (q *request) isDryRun() bool { return q.URL.Query().Has("dryRun") }

// subresources returns the subresource of the request in the form of the arguments of a dynamic client.
func (q *request) subresources() []string {
	if q.Subresource == "" {
		return nil
	}
	return []string{q.Subresource}
}

// response returns a response with an HTTP status and an object as JSON.
func (q *request) response(code int, obj any) (*http.Response, error) {
	body, err := json.Marshal(obj)
	return q.stream(code, io.NopCloser(bytes.NewReader(body))), err
}

// stream returns a response with an HTTP status and a body of unknown length.
func (q *request) stream(code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1, Request: q.Request,
	}
}

// dry returns a request with dryRun=All.
func dry(r *http.Request) *http.Request {
	changed, query := r.Clone(r.Context()), r.URL.Query()
	query.Set("dryRun", metav1.DryRunAll)
	changed.URL.RawQuery = query.Encode()
	return changed
}
