package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"windlass.dev/windlass/pkg/controller/apipath"
)

// requestTimeout is how long a request may take. The API server responds to every request within a minute
// (its --request-timeout), if need be with an error that says more than errUnanswered. A request that takes
// longer was lost on the way, for example because a proxy was replaced.
const requestTimeout = 70 * time.Second

// errUnanswered is the error of a request without a complete response. The API server may have processed
// the request.
var errUnanswered = fmt.Errorf("the API server did not send a complete response within %v", requestTimeout)

// WithTimeout returns a copy of config. A request with it fails if its response is not complete after 70 s, so that no
// request blocks a worker forever. Unlike the Timeout of a rest.Config, this timeout does not end a watch that has
// started. The metric windlass_api_requests_total counts the requests.
func WithTimeout(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return giveUp{next} })
	return config
}

// WithProtobuf returns a copy of config for clients of built-in types. All of these types can be encoded
// as protobuf, which takes less CPU time than JSON. If config has a ContentType, the clients use it.
func WithProtobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	if config.ContentType != "" {
		return config
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}

// giveUp is a transport that makes requests fail after requestTimeout. It also counts all requests.
type giveUp struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g giveUp) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(requestTimeout, func() { cancel(errUnanswered) })
	done := func() {
		timer.Stop()
		cancel(nil)
	}
	response, err := g.next.RoundTrip(r.WithContext(ctx))
	countRequest(r, response)
	if err != nil {
		err = explain(ctx, err)
		done()
		return nil, err
	}
	if apipath.IsWatch(r) {
		timer.Stop() // a watch that has started has no timeout
	}
	response.Body = &answer{ReadCloser: response.Body, ctx: ctx, done: done}
	return response, nil
}

// WrappedRoundTripper returns the wrapped transport to client-go.
func (g giveUp) WrappedRoundTripper() http.RoundTripper { return g.next }

// answer is the body of a response. Closing it stops the timer of the request.
type answer struct {
	io.ReadCloser
	ctx  context.Context
	done func()
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = explain(a.ctx, err)
	}
	return n, err
}

// Close implements io.Closer.
func (a *answer) Close() error {
	defer a.done()
	return a.ReadCloser.Close()
}

// explain returns errUnanswered if the timeout caused err, and err otherwise. An err that the timeout
// caused says only that a context was canceled.
func explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errUnanswered) {
		return cause
	}
	return err
}
