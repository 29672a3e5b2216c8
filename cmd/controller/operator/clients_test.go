package operator_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"

	"windlass.dev/windlass/cmd/controller/operator"
)

// silence is a transport to a server that never responds.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// requests returns a request for each client.
func requests(ctx context.Context, c operator.Clients) map[string]func() error {
	get := metav1.GetOptions{}
	return map[string]func() error{
		"Kube":    func() error { _, err := c.Kube.CoreV1().Pods("ns").Get(ctx, "a", get); return err },
		"Serving": func() error { _, err := c.Serving.CoreV1().Secrets("ns").Get(ctx, "a", get); return err },
		"CRDs": func() error {
			_, err := c.CRDs.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, "a", get)
			return err
		},
		"Metadata": func() error {
			_, err := c.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace("ns").Get(ctx, "a", get)
			return err
		},
		"Windlass": func() error { _, err := c.Windlass.WindlassV1alpha1().Apps("ns").Get(ctx, "a", get); return err },
		"Gateway":  func() error { _, err := c.Gateway.GatewayV1().HTTPRoutes("ns").Get(ctx, "a", get); return err },
		"CnatV1":   func() error { _, err := c.Windlass.CnatV1().Ats("ns").Get(ctx, "a", get); return err },
	}
}

func TestEveryClientTimesOutWithoutResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := operator.NewClients(&rest.Config{Host: "http://nowhere", Transport: silence{}, QPS: -1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, request := range requests(t.Context(), c) {
			if err := request(); err == nil ||
				!strings.Contains(err.Error(), "the API server did not send a complete response") {
				t.Errorf("a request of client %s ended with: %v", name, err)
			}
		}
	})
}

// failure is a transport that fails each request with its error.
type failure struct{ error }

func (f failure) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.error }

// TestFenceGuardsEveryClientOfKinds sends a request with each client through a fence that rejects all requests.
func TestFenceGuardsEveryClientOfKinds(t *testing.T) {
	fenced, passed := errors.New("fenced"), errors.New("passed")
	c, err := operator.NewClients(&rest.Config{
		Host: "http://nowhere", Transport: failure{passed}, QPS: -1,
	}, func(http.RoundTripper) http.RoundTripper { return failure{fenced} })
	if err != nil {
		t.Fatal(err)
	}
	free := sets.New("Serving", "CRDs")
	for name, request := range requests(t.Context(), c) {
		want := fenced
		if free.Has(name) {
			want = passed
		}
		if err := request(); !errors.Is(err, want) {
			t.Errorf("a request of client %s ended with: %v, want %v", name, err, want)
		}
	}
}
