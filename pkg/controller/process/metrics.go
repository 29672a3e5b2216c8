package process

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/component-base/metrics/legacyregistry"

	// These packages register the metrics of client-go and of the version.
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection"
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/version"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/process/access"
	"windlass.dev/windlass/pkg/httpserver"
)

// Metrics says how a process serves /metrics. The zero value serves no metrics.
type Metrics struct {
	// Address is the HOST:PORT at which /metrics is served by HTTPS, to users who may get this path: see
	// package access. Empty means none.
	Address string
	// Client asks the API server who may get a path. It is required with Address.
	Client kubernetes.Interface
	// Certificate returns the serving certificate. If it is nil or returns an error, the process uses a self-signed
	// certificate.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Plain serves /metrics at Options.BindAddress too, by HTTP and to everyone who reaches that address.
	Plain bool
	// Update, if it is set, is called before the metrics are read, to set metrics that change with time.
	Update func()
	// Pprof serves /debug/pprof wherever /metrics is served.
	Pprof bool
}

// SecureOrPlain returns the Metrics for the flags --metrics-secure and --metrics-bind-address. If secure is true,
// /metrics is served at address by HTTPS. Otherwise, it is served at Options.BindAddress by HTTP.
func SecureOrPlain(secure bool, address string, client kubernetes.Interface) Metrics {
	if !secure {
		return Metrics{Plain: true}
	}
	return Metrics{Address: address, Client: client}
}

// maxScrapes and maxScrapesPerAddress limit the concurrent requests for the metrics, in total and from one address.
// Each request takes some MiB of memory until its client has read the response.
const (
	maxScrapes           = 16
	maxScrapesPerAddress = 4
)

// addTo adds /metrics and, with Pprof, /debug/pprof to mux. protect wraps each handler.
func (m Metrics) addTo(
	mux *http.ServeMux, protect func(http.Handler) http.Handler, controllers func() []*controller.Controller,
) {
	metrics := legacyregistry.Handler()
	scrapes := httpserver.NewQuota(maxScrapes, maxScrapesPerAddress)
	mux.Handle("GET /metrics", protect(scrapes.Limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		controller.UpdateMetrics(controllers())
		if m.Update != nil {
			m.Update()
		}
		metrics.ServeHTTP(w, r)
	}))))
	if !m.Pprof {
		return
	}
	for path, handler := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/profile": pprof.Profile, "/debug/pprof/symbol": pprof.Symbol,
		"/debug/pprof/trace": pprof.Trace,
	} {
		mux.Handle(path, protect(handler))
	}
}

// unprotected returns the handler of an endpoint that everyone may read without authentication.
func unprotected(handler http.Handler) http.Handler { return handler }

// secure returns the handler and the TLS configuration for Address.
func (m Metrics) secure(controllers func() []*controller.Controller) (http.Handler, *tls.Config) {
	mux := http.NewServeMux()
	m.addTo(mux, access.New(m.Client, clock.RealClock{}).Protect, controllers)
	return mux, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: m.certificate,
	}
}

func (m Metrics) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if m.Certificate != nil {
		if certificate, err := m.Certificate(hello); err == nil {
			return certificate, nil
		}
	}
	return selfSigned()
}

// selfSigned returns a certificate for the name of this host. All calls return the same certificate.
var selfSigned = sync.OnceValues(func() (*tls.Certificate, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the name of the host for a certificate: %w", err)
	}
	chain, key, err := cert.GenerateSelfSignedCertKey(host, nil, []string{"localhost"})
	if err != nil {
		return nil, fmt.Errorf("creating a self-signed certificate: %w", err)
	}
	certificate, err := tls.X509KeyPair(chain, key)
	return &certificate, err
})
