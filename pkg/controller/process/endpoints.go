package process

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"time"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/httpserver"
)

// Timeouts of a request, and of the shutdown of a server.
const (
	readTimeout     = 10 * time.Second
	writeTimeout    = 2 * time.Minute // a CPU profile takes 30 s, or as long as the request says
	shutdownTimeout = 5 * time.Second
)

// health returns the handler of /healthz and /readyz. With ?verbose, /readyz also says of each controller whether
// its kind is watched.
func health(healthy, ready func() error, controllers func() []*controller.Controller) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		states := ""
		if r.URL.Query().Has("verbose") {
			states = kindStates(controllers())
		}
		if err := ready(); err != nil {
			http.Error(w, states+err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, states+"ok")
	})
	return mux
}

// kindStates returns one line for each controller, which says whether its kind is watched. The lines contain no error,
// because every Pod of the cluster can read them. The log has the error.
func kindStates(controllers []*controller.Controller) string {
	var lines strings.Builder
	for _, c := range controllers {
		if c.Watched() {
			fmt.Fprintf(&lines, "[+]%s ok\n", c.Name())
		} else {
			fmt.Fprintf(&lines, "[-]%s is not watched: the log of the operator says why\n", c.Name())
		}
	}
	return lines.String()
}

// serve listens on address, and returns an error if that fails. In the background, it then serves until ctx ends: by
// HTTPS if certificates is not nil, otherwise by HTTP. If the server fails before ctx ends, serve sends the error to
// failed. stopped is closed after the shutdown, which takes up to 5 s.
func serve(ctx context.Context, address string, handler http.Handler, certificates *tls.Config, failed chan<- error) (
	stopped <-chan struct{}, err error) {
	server, err := httpserver.Listen(ctx, address, httpserver.Options{
		Handler: handler, TLS: certificates, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
	})
	if err != nil {
		return nil, err
	}
	go func() {
		if err := server.Serve(); err != nil {
			failed <- err
		}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		_ = server.Shutdown(ending) // Shutdown closes the connections of unfinished requests
	}()
	return done, nil
}
