package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	crdclientset "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/httpserver"
	"windlass.dev/windlass/pkg/webhook/certificate"
)

// Timeouts of a request. The API server cancels a conversion after 30 s.
const (
	readTimeout  = 10 * time.Second // short, because large bodies that arrive slowly block other large bodies
	writeTimeout = 30 * time.Second // from the end of the header to the end of the response
	drainTimeout = 30 * time.Second
)

// verbosity is the log level of errors of net/http, for example if a client closes the connection or rejects the
// certificate.
const verbosity = 4

// Options configures a Server.
type Options struct {
	// Address is the host and port to listen on.
	Address string
	// ShutdownDelay is how long the webhook keeps serving after the context of Run has ended, so that the
	// Service stops sending requests first. Meanwhile, the webhook asks clients to close their connections.
	// Defaults to 0.
	ShutdownDelay time.Duration
	// Certificate configures the certificate. Certificate.Clock defaults to the real clock.
	Certificate certificate.Options
}

// Server converts Ats for the API server.
type Server struct {
	options      Options
	certificates *certificate.Source
	listening    atomic.Pointer[net.Addr] // nil before Run, and after its context has ended
	ending       atomic.Bool
}

// New returns a Server.
func New(kube kubernetes.Interface, crd crdclientset.Interface, options Options) *Server {
	if options.Certificate.Clock == nil {
		options.Certificate.Clock = clock.RealClock{}
	}
	return &Server{options: options, certificates: certificate.New(kube, crd, options.Certificate)}
}

// Ready returns nil if the webhook listens, the API server trusts its certificate, and no other installation
// serves the webhook. It is for /readyz.
func (s *Server) Ready() error {
	if s.listening.Load() == nil {
		return errors.New("the conversion webhook is not listening")
	}
	return s.certificates.Ready()
}

// GetCertificate returns the serving certificate, for the tls.Config of a further server of this process. It fails
// until there is a certificate that the API server trusts.
func (s *Server) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.certificates.GetCertificate(hello)
}

// Lead tells the Server that its installation leads in this cluster. From then on, the Server may take over the
// webhook from another installation. Lead may be called before Run.
func (s *Server) Lead() { s.certificates.Lead() }

// Run serves until ctx ends and ShutdownDelay has passed. Then it finishes the requests in flight. It returns
// an error if it cannot listen or serve. It must be called only once.
func (s *Server) Run(ctx context.Context) error {
	server, err := s.listen(ctx)
	if err != nil {
		return fmt.Errorf("serving conversions: %w", err)
	}
	address := server.Addr()
	s.listening.Store(&address)
	klog.FromContext(ctx).Info("Listening for conversions", "address", address)

	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	failed := make(chan error, 1)
	running.Go(func() { failed <- server.Serve() })
	running.Go(func() { s.certificates.Run(ctx) })
	select {
	case <-ctx.Done():
		s.listening.Store(nil)
		err = s.linger(failed)
	case err = <-failed:
		s.listening.Store(nil)
	}
	if err != nil {
		err = fmt.Errorf("serving conversions: %w", err)
	}
	return errors.Join(err, drain(ctx, server))
}

// linger waits for ShutdownDelay while the webhook keeps serving. It returns the error if serving fails.
func (s *Server) linger(failed <-chan error) error {
	if s.options.ShutdownDelay <= 0 {
		return nil
	}
	passed := s.options.Certificate.Clock.After(s.options.ShutdownDelay)
	s.ending.Store(true)
	select {
	case <-passed:
		return nil
	case err := <-failed:
		return err
	}
}

// closing returns a handler that calls next. While the webhook shuts down, the handler asks clients to close their
// connections. If the handler did not ask, a client could send its next request at the moment when the server closes
// the connection.
func (s *Server) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.ending.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// listen returns the HTTPS server of the webhook.
func (s *Server) listen(ctx context.Context) (*httpserver.Server, error) {
	logger := klog.FromContext(ctx)
	return httpserver.Listen(ctx, s.options.Address, httpserver.Options{
		Handler:      s.closing(newHandler()),
		TLS:          &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: s.certificates.GetCertificate},
		ReadTimeout:  readTimeout,
		WriteTimeout: writeTimeout,
		Log: func(text string) {
			logger.V(verbosity).Info("The HTTP server of the webhook reported an error", "err", text)
		},
	})
}

// drain shuts the server down. It waits for the requests in flight, but at most for drainTimeout.
func drain(ctx context.Context, server *httpserver.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("finishing conversions: %w", err)
	}
	return nil
}
