package cluster

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"
)

func TestDescribeNamesVerbAndResource(t *testing.T) {
	for name, c := range map[string]struct{ method, path, verb, resource string }{
		"a get":                    {"GET", "/api/v1/namespaces/shop/pods/web-0", "get", "pods"},
		"a list in a namespace":    {"GET", "/api/v1/namespaces/shop/pods?limit=1", "list", "pods"},
		"a list of all namespaces": {"GET", "/apis/apps/v1/deployments", "list", "deployments.apps"},
		"a watch": {
			"GET", "/apis/windlass.dev/v1alpha1/apps?allowWatchBookmarks=true&watch=true", "watch", "apps.windlass.dev",
		},
		"a create": {"POST", "/apis/networking.k8s.io/v1/namespaces/shop/ingresses", "create", "ingresses.networking.k8s.io"},
		"a patch":  {"PATCH", "/apis/apps/v1/namespaces/shop/deployments/web", "patch", "deployments.apps"},
		"an update of a status": {
			"PUT", "/apis/windlass.dev/v1alpha1/namespaces/shop/apps/web/status", "update", "apps.windlass.dev/status",
		},
		"a status of a cluster object": {
			"PUT", "/apis/windlass.dev/v1alpha1/platforms/shop/status", "update", "platforms.windlass.dev/status",
		},
		"a delete":                  {"DELETE", "/api/v1/namespaces/shop/configmaps/web", "delete", "configmaps"},
		"a delete of a collection":  {"DELETE", "/api/v1/namespaces/shop/configmaps", "deletecollection", "configmaps"},
		"the log of a Pod":          {"GET", "/api/v1/namespaces/shop/pods/web-0/log", "get", "pods/log"},
		"a namespace":               {"GET", "/api/v1/namespaces/shop", "get", "namespaces"},
		"the status of a namespace": {"PUT", "/api/v1/namespaces/shop/status", "update", "namespaces/status"},
		"all namespaces":            {"GET", "/api/v1/namespaces", "list", "namespaces"},
		"a namespace named status":  {"GET", "/api/v1/namespaces/status/pods", "list", "pods"},
		"discovery":                 {"GET", "/apis/windlass.dev/v1alpha1", "get", "none"},
		"discovery of groups":       {"GET", "/apis", "get", "none"},
		"another path":              {"GET", "/version", "get", "none"},
		"a path behind a proxy":     {"GET", "/k8s/clusters/c-1/api/v1/namespaces/shop/pods/web-0", "get", "pods"},
		"a review": {
			"POST", "/apis/authentication.k8s.io/v1/tokenreviews", "create", "tokenreviews.authentication.k8s.io",
		},
	} {
		t.Run(name, func(t *testing.T) {
			verb, resource := describe(httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil))
			if verb != c.verb || resource != c.resource {
				t.Errorf("%s %s is %s %s, want %s %s", c.method, c.path, verb, resource, c.verb, c.resource)
			}
		})
	}
}

func TestRequestsAreCountedByCode(t *testing.T) {
	kube, _ := clientsOf(t, func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/lost") {
			return nil, errors.New("no route to host")
		}
		return &http.Response{StatusCode: http.StatusTeapot, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
	})
	for _, name := range []string{"found", "lost", "lost"} {
		_, _ = kube.StorageV1().VolumeAttachments().Get(t.Context(), name, metav1.GetOptions{})
	}
	response := httptest.NewRecorder()
	legacyregistry.Handler().ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics",
		nil))
	for _, want := range []string{
		`windlass_api_requests_total{code="418",resource="volumeattachments.storage.k8s.io",verb="get"} 1`,
		`windlass_api_requests_total{code="error",resource="volumeattachments.storage.k8s.io",verb="get"} 2`,
	} {
		if !strings.Contains(response.Body.String(), want) {
			t.Errorf("the metrics do not contain %s", want)
		}
	}
}
