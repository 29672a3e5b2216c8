//go:build integration

package plan

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"

	"k8s.io/client-go/rest"

	"windlass.dev/windlass/cmd/controller/operator"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/apipath"
	"windlass.dev/windlass/pkg/postgresql"
)

// workers is the number of workers of each controller.
const workers = 4

// running is a running operator, and a record of its writes.
type running struct {
	writes recorder
	done   sync.WaitGroup
}

// operate starts the operator. It runs until ctx ends.
func operate(ctx context.Context, config *rest.Config) (*running, error) {
	r := &running{}
	config = rest.CopyConfig(config)
	config.QPS, config.ContentType, config.AcceptContentTypes = -1, "application/json", "application/json"
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recording{&r.writes, next} })
	clients, err := operator.NewClients(config, nil)
	if err != nil {
		return nil, err
	}
	caches := operator.NewCaches(clients, operator.CacheOptions{})
	controllers, err := operator.Kinds(ctx, caches, controller.DiscardEvents{}, options())
	if err != nil {
		return nil, err
	}
	caches.Start(ctx.Done())
	for _, c := range controllers.All {
		r.done.Go(func() { _ = c.Run(ctx, workers) }) // Run returns an error when the test ends
	}
	return r, nil
}

// options returns a configuration with which the operator may connect to the PostgreSQL server on this machine.
func options() operator.Options {
	allowed, err := postgresql.ParseAllowedHosts([]string{"127.0.0.0/8", "::1"})
	if err != nil {
		return operator.Options{} // without allowed hosts, no ExternalDatabase becomes Ready
	}
	return operator.Options{ExternalDatabases: postgresql.Options{Allowed: allowed}}
}

func (r *running) wait() { r.done.Wait() }

// write is a write of the operator.
type write struct {
	verb string
	apipath.Path
	body []byte
	// code is 0 until there is a response.
	code int
}

// recorder records the writes of the operator, in the order of the requests.
type recorder struct {
	mu  sync.Mutex
	all []*write
}

// in returns the writes so far to the objects in a namespace, and to the cluster-scoped object with the name of the
// namespace.
func (r *recorder) in(namespace string) (found []write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.all {
		if w.code != 0 && concerns(w.Path, namespace) {
			found = append(found, *w)
		}
	}
	return found
}

func (r *recorder) begin(w *write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, w)
}

func (r *recorder) end(w *write, code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.code = code
}

func concerns(p apipath.Path, namespace string) bool {
	return p.Namespace == namespace || p.Namespace == "" && p.Name == namespace
}

type recording struct {
	recorder *recorder
	next     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r recording) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || request.URL.Query().Has("dryRun") { // a dry run stores nothing
		return r.next.RoundTrip(request)
	}
	w := &write{Path: apipath.Parse(request.URL.Path)}
	w.verb = w.Verb(request)
	if request.Body != nil {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		w.body, request.Body = body, io.NopCloser(bytes.NewReader(body))
	}
	r.recorder.begin(w)
	response, err := r.next.RoundTrip(request)
	if err == nil {
		r.recorder.end(w, response.StatusCode)
	}
	return response, err
}
