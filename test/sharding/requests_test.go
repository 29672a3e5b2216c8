//go:build integration

package sharding

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/test/framework"
)

// namespaced are the namespaced types that the operator watches.
var namespaced = []string{
	"apps", "ats", "configmaps", "databases", "deployments", "externaldatabases", "horizontalpodautoscalers",
	"ingresses", "persistentvolumeclaims",
	"poddisruptionbudgets", "pods", "secrets", "services", "statefulsets",
}

// checkSelectors fails the test unless the replicas have limited at least one watch of each namespaced type, and the
// API server has accepted each selector. If served is true, no watch of a namespaced type may request the objects of
// all shards.
func (s *sharded) checkSelectors(t *testing.T, served bool) {
	t.Helper()
	watches, err := s.Requests(func(r framework.Request) bool {
		return r.User.Username == framework.ControllerUser && r.Verb == "watch" &&
			slices.Contains(namespaced, r.ObjectRef.Resource)
	})
	if err != nil {
		t.Fatal(err)
	}
	selector := "metadata.namespace%21%3D"
	if served {
		selector = "shardSelector="
	}
	selected := map[string]bool{}
	for _, r := range watches {
		limited := strings.Contains(r.RequestURI, selector)
		if code := r.ResponseStatus.Code; limited && code != http.StatusOK {
			t.Errorf("%s: %d %s", r.RequestURI, code, r.ResponseStatus.Message)
		}
		if served && !limited {
			t.Errorf("a replica watches the objects of all shards: %s", r.RequestURI)
		}
		if limited {
			selected[r.ObjectRef.Resource] = true
		}
	}
	controllertest.Equal(t, "types with a watch that is limited", namespaced, slices.Sorted(maps.Keys(selected)))
}

// checkPermissions fails the test if the API server has denied a request of a replica.
func (s *sharded) checkPermissions(t *testing.T) {
	t.Helper()
	denied, err := s.Requests(func(r framework.Request) bool {
		return r.User.Username == framework.ControllerUser && r.Unauthorized()
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range denied {
		t.Errorf("the ServiceAccount lacks a permission: %s", r)
	}
}

// checkMetrics fails the test unless the metrics of the running replicas count all shards.
func (s *sharded) checkMetrics(t *testing.T) {
	t.Helper()
	sum := func(name string) (sum int) {
		for _, p := range s.replicas {
			sum += metric(t, p, name)
		}
		return sum
	}
	framework.Eventually(t, "the metrics to count all shards", func(context.Context) (bool, error) {
		return sum("windlass_shards_held ") == count, nil
	})
	controllertest.Equal(t, "shards in the layouts of all replicas", count*len(s.replicas), sum("windlass_shards "))
}
