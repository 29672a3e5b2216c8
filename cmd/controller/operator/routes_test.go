package operator

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/lenient"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/sharding/sharded"
)

// TestRoutesAreCachedWithTheirAnnotations lists a route with an annotation of spec.metadata, a route with a status that
// its Go type cannot hold, and a route with a status that exceeds the limit of an object.
func TestRoutesAreCachedWithTheirAnnotations(t *testing.T) {
	route := func(name, status string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"a","annotations":{"example.com/team":"shop"}},`+
			`"status":{"parents":[{"parentRef":{"name":"public"},"controllerName":"example.com/a","conditions":[%s]}]}}`,
			name, status)
	}
	list := `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRouteList","metadata":{"resourceVersion":"1"},` +
		`"items":[` + strings.Join([]string{
		route("good", `{"type":"Accepted","status":"True"}`),
		route("odd", `{"type":"Accepted","status":"True","lastTransitionTime":"2026-01-01t00:00:00z"}`),
		route("large", `{"type":"Accepted","message":"`+strings.Repeat("x", budget.Object)+`"}`),
	}, ",") + `]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Has("watch") {
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, list)
	}))
	defer server.Close()
	client, err := newGateway(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	routes := newRoutes(client, "", sharded.Filter{}, &budget.Budget{})
	informer := routes.Gateway().V1().HTTPRoutes().Informer()
	stop := make(chan struct{})
	defer routes.Shutdown()
	defer close(stop)
	routes.Start(stop)
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the routes were not listed")
	}
	get := func(name string) *gatewayv1.HTTPRoute {
		found, exists, err := informer.GetStore().GetByKey("a/" + name)
		if err != nil || !exists {
			t.Fatalf("route %s is not cached: %v", name, err)
		}
		return found.(*gatewayv1.HTTPRoute)
	}
	controllertest.Equal(t, "annotation", "shop", get("good").Annotations["example.com/team"])
	controllertest.Equal(t, "mark of a good route", (*lenient.Mark)(nil), lenient.MarkOn(get("good")))
	for _, name := range []string{"odd", "large"} {
		if lenient.MarkOn(get(name)) == nil {
			t.Errorf("the route %s has no mark", name)
		}
		controllertest.Equal(t, "status of the route "+name, gatewayv1.HTTPRouteStatus{}, get(name).Status)
	}
}
