package process

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"windlass.dev/windlass/pkg/controller"
)

// permissive is an API server for which every token is valid and every user may do everything.
func permissive() *fake.Clientset {
	kube := fake.NewClientset()
	kube.PrependReactor("create", "tokenreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{Authenticated: true}}, nil
	})
	kube.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authorizationv1.SubjectAccessReview{
			Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true},
		}, nil
	})
	return kube
}

func TestMetricsAndProfilesNeedToken(t *testing.T) {
	handler, _ := Metrics{Address: ":0", Client: permissive(), Pprof: true}.secure(none)
	for _, path := range []string{
		"/metrics", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/heap", "/debug/pprof/profile",
		"/debug/pprof/symbol", "/debug/pprof/trace",
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		if response.Code != http.StatusUnauthorized {
			t.Errorf("GET %s without a token: status %d", path, response.Code)
		}
	}
	for path, want := range map[string]int{
		"/metrics": http.StatusOK, "/debug/pprof/heap": http.StatusOK, "/healthz": http.StatusNotFound,
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		request.Header.Set("Authorization", "Bearer token")
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		if response.Code != want {
			t.Errorf("GET %s with a token: status %d, want %d", path, response.Code, want)
		}
	}
	mux, response := http.NewServeMux(), httptest.NewRecorder()
	Metrics{Plain: true}.addTo(mux, unprotected, none)
	mux.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/heap", nil))
	if response.Code != http.StatusNotFound {
		t.Errorf("GET /debug/pprof/heap without Pprof: status %d, want %d", response.Code, http.StatusNotFound)
	}
}

// TestMetricsAreServedByHTTPSOnly listens on a real port.
func TestMetricsAreServedByHTTPSOnly(t *testing.T) {
	pid := os.Getpid() // part of a loopback address that belongs to this process alone
	address := fmt.Sprintf("127.%d.%d.%d:8443", byte(pid>>16)|1<<6, byte(pid>>8), byte(pid))
	p := &process{Options: Options{Metrics: Metrics{Address: address, Client: permissive()}}, failed: make(chan error, 2)}
	ctx, stop := context.WithCancel(t.Context())
	stopped, err := p.listen(ctx, health(nil, nil, none))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
		Timeout:   time.Minute,
	}
	get := func(url string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer token")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	if status := get("https://" + address + "/metrics"); status != http.StatusOK {
		t.Errorf("by HTTPS: status %d", status)
	}
	if status := get("http://" + address + "/metrics"); status != http.StatusBadRequest {
		t.Errorf("by HTTP: status %d, want %d", status, http.StatusBadRequest)
	}
	stop()
	for _, server := range stopped {
		<-server
	}
}

func TestMetricsUseGivenCertificateOrSelfSignedOne(t *testing.T) {
	given := &tls.Certificate{}
	m := Metrics{Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return given, nil }}
	if got, err := m.certificate(nil); err != nil || got != given {
		t.Errorf("got %v, %v, want the given certificate", got, err)
	}
	m.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("not yet") }
	for _, m := range []Metrics{m, {}} {
		got, err := m.certificate(nil)
		if err != nil || got.Leaf == nil || got.Leaf.NotAfter.Before(time.Now().Add(300*24*time.Hour)) {
			t.Errorf("the self-signed certificate is %v, %v", got, err)
		}
	}
}

// running returns a function that returns the controllers.
func running(controllers ...*controller.Controller) func() []*controller.Controller {
	return func() []*controller.Controller { return controllers }
}

// none returns no controllers.
func none() []*controller.Controller { return nil }
