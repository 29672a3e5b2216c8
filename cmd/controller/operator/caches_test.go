package operator

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/client-go/rest"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/sharding/sharded"
)

// TestCachesOfShardSelectObjectsOnTheServer starts caches of every informer factory, and records the shard selector of
// the first request for each resource. The API server cannot select cluster-scoped objects by namespace.
func TestCachesOfShardSelectObjectsOnTheServer(t *testing.T) {
	selector := sharding.NewSelector(sharding.ShardRangeRequirement{
		Key: "object.metadata.namespace", Start: "0x0000000000000000", End: "0x8000000000000000",
	})
	want := map[string]string{
		"secrets": selector.String(), "deployments": selector.String(), "configmaps": selector.String(),
		"pods": selector.String(), "ats": selector.String(), "apps": selector.String(), "httproutes": selector.String(),
		"grpcroutes": selector.String(), "platforms": "", "namespaces": "",
	}
	var mu sync.Mutex
	got, all := map[string]string{}, make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		if _, seen := got[resource]; !seen {
			if got[resource] = r.URL.Query().Get("shardSelector"); len(got) == len(want) {
				close(all)
			}
		}
		http.NotFound(w, r)
	}))
	defer server.Close()
	clients, err := NewClients(&rest.Config{Host: server.URL, QPS: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	caches := NewCaches(clients, CacheOptions{Shard: sharded.NewFilter(selector, sharded.NewStreams())})
	caches.Secrets()
	caches.Deployments()
	caches.Others.ForResource(corev1.SchemeGroupVersion.WithResource("configmaps"))
	caches.All.ForResource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	caches.All.ForResource(corev1.SchemeGroupVersion.WithResource("pods"))
	caches.HTTPRoutes()
	caches.GRPCRoutes()
	caches.Kinds.Cnat().V1().Ats().Informer()
	caches.Kinds.Windlass().V1alpha1().Apps().Informer()
	caches.Kinds.Windlass().V1alpha1().Platforms().Informer()
	stop := make(chan struct{})
	caches.Start(stop)
	<-all
	close(stop)
	caches.Shutdown()
	mu.Lock()
	defer mu.Unlock()
	controllertest.Equal(t, "shard selectors", want, maps.Clone(got))
}
