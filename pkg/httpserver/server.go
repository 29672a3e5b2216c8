// Package httpserver serves HTTP and HTTPS at ports that anybody may reach. Its servers limit connections, headers and
// times, so that a client without credentials can neither fill the memory of the process nor keep other clients out.
// A handler limits what its own requests need: see Quota.
package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"
)

// Limits of each server.
const (
	// MaxConnections is the largest number of open connections. A server closes further connections at once.
	MaxConnections = 1024
	// MaxConnectionsPerAddress is the largest number of open connections from one address. It leaves room for other
	// clients: without it, one client could hold all connections. An API server uses a connection for each conversion
	// at the same time, and reports an error for a connection that is closed.
	MaxConnectionsPerAddress = 256
	// maxHeader is the largest size of a header, in bytes. The largest legal headers have a token of some KiB.
	// net/http adds 4 KiB, and responds with status 431 to larger headers.
	maxHeader = 16 << 10
	// headerTimeout limits the TLS handshake, and then the time until a header has arrived.
	headerTimeout = 5 * time.Second
	// idleTimeout is how long a connection may wait for its next request. It is longer than the 90 s after which
	// clients of Kubernetes close idle connections: if the server closed them first, it could break a request.
	idleTimeout = 2 * time.Minute
)

// Options configures a Server.
type Options struct {
	// Handler handles the requests. It is required.
	Handler http.Handler
	// TLS configures HTTPS. Nil means HTTP. The server never offers HTTP/2, with which one connection could have
	// many requests in flight. API servers call webhooks by HTTP/1.1.
	TLS *tls.Config
	// ReadTimeout limits the time in which a request arrives. Required.
	ReadTimeout time.Duration
	// WriteTimeout limits the time from the end of the header to the end of the response. Required.
	WriteTimeout time.Duration
	// Log, if it is set, gets the errors of connections: for example, a client rejects the certificate, or too many
	// connections are open.
	Log func(text string)
}

// Server serves HTTP or HTTPS at one address.
type Server struct {
	server   http.Server
	listener *listener
}

// Listen returns a Server that listens on the TCP address HOST:PORT. It accepts connections once Serve is called.
// Requests inherit the values of ctx, but outlive it.
func Listen(ctx context.Context, address string, o Options) (*Server, error) {
	tcp, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return &Server{
		listener: newListener(tcp, NewQuota(MaxConnections, MaxConnectionsPerAddress), logWriter(o.Log)),
		server: http.Server{
			Handler:           o.Handler,
			TLSConfig:         o.TLS,
			Protocols:         protocols,
			MaxHeaderBytes:    maxHeader,
			ReadHeaderTimeout: headerTimeout,
			ReadTimeout:       o.ReadTimeout,
			WriteTimeout:      o.WriteTimeout,
			IdleTimeout:       idleTimeout,
			ErrorLog:          log.New(logWriter(o.Log), "", 0),
			BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		},
	}, nil
}

// Addr returns the address at which s listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve serves until Shutdown is called, and then returns nil.
func (s *Server) Serve() error {
	serve := s.server.Serve
	if s.server.TLSConfig != nil {
		serve = func(l net.Listener) error { return s.server.ServeTLS(l, "", "") }
	}
	if err := serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", s.Addr(), err)
	}
	return nil
}

// Shutdown stops listening and waits for the requests in flight. If ctx ends first, Shutdown closes their connections
// and returns an error.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.server.Shutdown(ctx); err != nil {
		return errors.Join(err, s.server.Close())
	}
	return nil
}

// logWriter is a writer for the log of net/http.
type logWriter func(text string)

func (w logWriter) Write(text []byte) (int, error) {
	if w != nil {
		w(strings.TrimSpace(string(text)))
	}
	return len(text), nil
}
