package cluster

import (
	"net/http"
	"strconv"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"windlass.dev/windlass/pkg/controller/apipath"
)

// requests counts requests to the API server. client-go's rest_client_requests_total has no label for the resource.
var requests = metrics.NewCounterVec(&metrics.CounterOpts{
	Name: "windlass_api_requests_total",
	Help: "Requests to the API server by verb, resource and code. An example of a resource is apps.windlass.dev/status; " +
		"the resource of other paths is \"none\". The code is the HTTP status code, or \"error\" without a response.",
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

// describe returns the verb and the resource of a request, as RBAC names them.
func describe(r *http.Request) (verb, resource string) {
	path := apipath.Parse(r.URL.Path)
	verb, resource = path.Verb(r), "none"
	if of := path.Resource.GroupResource(); of.Resource != "" {
		resource = of.String()
	}
	if path.Subresource != "" {
		resource += "/" + path.Subresource
	}
	return verb, resource
}
