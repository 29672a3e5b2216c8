package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// requestTimeout is how long a request is waited for. The API server itself answers each
// within a minute (its --request-timeout), and that answer says more; what takes longer was
// lost on the way, as in a proxy that is replaced.
const requestTimeout = 70 * time.Second

// errUnanswered is an error of a request that may have been carried out all the same.
var errUnanswered = fmt.Errorf("no answer from the API server, or not all of it, within %v", requestTimeout)

// giveUp has requests fail that nobody answers. They would hold a worker for ever. It can
// not be left to the Timeout of a rest.Config, which ends watches too.
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
	if err != nil {
		err = explain(ctx, err)
		done()
		return nil, err
	}
	if isWatch(r) {
		timer.Stop() // which has begun, and takes as long as it takes
	}
	response.Body = &answer{ReadCloser: response.Body, ctx: ctx, done: done}
	return response, nil
}

// WrappedRoundTripper lets client-go find the transport that this stands before.
func (g giveUp) WrappedRoundTripper() http.RoundTripper { return g.next }

// isWatch tells whether the answer to a request of client-go has no end.
func isWatch(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.URL.RawQuery, "watch=true")
}

// answer is the body of a response.
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

// explain returns the cause of an error that came of giving up: of itself it says only that
// something was canceled, as at the end of the process.
func explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errUnanswered) {
		return cause
	}
	return err
}
