//go:build integration

package integration

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"windlass.dev/windlass/test/framework"
)

// troubledServer is a proxy of an API server. It responds to about half of the requests with an error, until it has
// sent a number of errors.
type troubledServer struct {
	server http.Handler

	mu       sync.Mutex
	random   *rand.Rand
	left     int             // the number of errors to send
	rejected map[string]bool // the methods and paths of requests for the certificate whose last attempt failed
}

// trouble is the error with which the proxy responds to one request.
type trouble int

const (
	none         trouble = iota
	tooMany              // 429 with Retry-After: 1
	broken               // 500, and the request is not executed
	lostResponse         // 500, although the request is executed
)

func (s *troubledServer) next(r *http.Request) trouble {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == 0 || s.random.IntN(2) == 0 {
		return none
	}
	if isOfCertificate(r) {
		what := r.Method + " " + r.URL.Path
		if s.rejected[what] = !s.rejected[what]; !s.rejected[what] {
			return none
		}
	}
	s.left--
	return tooMany + trouble(s.random.IntN(3))
}

// isOfCertificate reports whether a request concerns the webhook's certificate. The proxy does not let such a request
// fail twice in a row: the controller is not ready without the certificate, and doubles its backoff after each failure.
// Seven failures in a row would delay the start by two minutes.
func isOfCertificate(r *http.Request) bool {
	return strings.Contains(r.URL.Path, "/namespaces/windlass-system/secrets") ||
		strings.Contains(r.URL.Path, "/customresourcedefinitions")
}

func (s *troubledServer) spent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left == 0
}

// ServeHTTP implements http.Handler.
func (s *troubledServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	trouble := s.next(r)
	if trouble == none {
		s.server.ServeHTTP(w, r)
		return
	}
	if trouble == lostResponse && !r.URL.Query().Has("watch") {
		s.server.ServeHTTP(httptest.NewRecorder(), r)
	}
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: "this is a test",
	}
	if trouble == tooMany {
		status.Code, status.Reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// troubled starts a troubledServer for a cluster. The server sends the given number of errors. It returns the server,
// and a kubeconfig with which the controller's account uses the server.
func troubled(t *testing.T, c *framework.Cluster, errors int) (*troubledServer, string) {
	t.Helper()
	troubled := &troubledServer{random: rand.New(rand.NewPCG(1, 2)), left: errors, rejected: map[string]bool{}}
	return troubled, startProxy(t, c, func(server http.Handler) http.Handler {
		troubled.server = server
		return troubled
	})
}

// startProxy starts a proxy of a cluster's API server. wrap returns the handler of the proxy, which can forward
// requests to server. startProxy returns a kubeconfig with which the controller's account uses the proxy.
func startProxy(t *testing.T, c *framework.Cluster, wrap func(server http.Handler) http.Handler) (kubeconfig string) {
	t.Helper()
	target, err := url.Parse(c.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	anonymous := rest.AnonymousClientConfig(c.Config()) // the requests already contain tokens
	transport, err := rest.TransportFor(anonymous)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport, proxy.FlushInterval = transport, -1
	proxy.ErrorLog = log.New(io.Discard, "", 0) // drops the errors of requests whose client was killed
	server := httptest.NewUnstartedServer(wrap(proxy))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)

	account, err := c.ServiceAccountKubeconfig(t.Context(), "windlass-system", "windlass-controller")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(account)
	if err != nil {
		t.Fatal(err)
	}
	for _, there := range config.Clusters {
		there.Server = server.URL
		there.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestControllerSurvivesAPIServerErrors(t *testing.T) {
	t.Parallel()
	c := framework.Own(t)
	server, kubeconfig := troubled(t, c.Cluster, 3*population)
	p := framework.Launch(t, c.Cluster, "--kubeconfig", kubeconfig, "--leader-elect=false")
	populate(t, c, 0, population, 5*time.Second)
	waitAllDone(t, c)
	if !server.spent() {
		t.Error("the proxy sent fewer errors than planned")
	}
	if code := p.Terminate(); code != 0 {
		t.Errorf("the controller ended with exit code %d, want 0; its log:\n%s", code, p.Log.String())
	}
}
