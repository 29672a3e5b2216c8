package cluster

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// requests counts requests to the API server. client-go's rest_client_requests_total has no label for the resource.
var requests = metrics.NewCounterVec(&metrics.CounterOpts{
	Name:           "windlass_api_requests_total",
	Help:           "Requests to the API server by verb, resource (such as deployments.apps, or apps.windlass.dev/status; none for other paths) and HTTP status code (error if there was no response).",
	StabilityLevel: metrics.ALPHA,
}, []string{"verb", "resource", "code"})

func init() { legacyregistry.MustRegister(requests) }

// countRequest counts a request. response is nil if there was none.
func countRequest(r *http.Request, response *http.Response) {
	code := "error"
	if response != nil {
		code = strconv.Itoa(response.StatusCode)
	}
	verb, resource := describe(r)
	requests.WithLabelValues(verb, resource, code).Inc()
}

// describe returns the verb and the resource of a request, as RBAC names them. The paths are described in
// https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris. Before them, the URL can have the path of
// a proxy.
func describe(r *http.Request) (verb, resource string) {
	verb, resource = strings.ToLower(r.Method), "none"
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	root := slices.IndexFunc(parts, func(part string) bool { return part == "api" || part == "apis" })
	if root < 0 {
		return verb, resource
	}
	of, rest := schema.GroupResource{}, parts[root:]
	if rest[0] == "apis" && len(rest) > 1 {
		of.Group, rest = rest[1], rest[1:]
	}
	if rest = rest[min(2, len(rest)):]; len(rest) > 2 && rest[0] == "namespaces" && rest[2] != "status" {
		rest = rest[2:] // a resource in a namespace
	}
	if len(rest) == 0 {
		return verb, resource // discovery
	}
	of.Resource = rest[0]
	resource, named := of.String(), len(rest) > 1
	if len(rest) > 2 {
		resource += "/" + rest[2]
	}
	return verbOf(r, named), resource
}

func verbOf(r *http.Request, named bool) string {
	switch {
	case isWatch(r):
		return "watch"
	case r.Method == http.MethodGet && !named:
		return "list"
	case r.Method == http.MethodPost:
		return "create"
	case r.Method == http.MethodPut:
		return "update"
	case r.Method == http.MethodDelete && !named:
		return "deletecollection"
	}
	return strings.ToLower(r.Method)
}
