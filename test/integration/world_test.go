//go:build integration

package integration

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/test/cluster"
	"windlass.dev/windlass/test/place"
)

// requests are those of the controller about a namespace, events and watches left
// out.
func requests(t *testing.T, namespace string) []string {
	t.Helper()
	return requestsWith(t, func(r cluster.Request) bool { return r.ObjectRef.Namespace == namespace })
}

func requestsWith(t *testing.T, about func(cluster.Request) bool) []string {
	t.Helper()
	found, err := shared.Requests(func(r cluster.Request) bool {
		return r.User.Username == controllerUser && about(r) &&
			r.ObjectRef.Resource != "events" && !slices.Contains([]string{"watch", "list"}, r.Verb)
	})
	if err != nil {
		t.Fatalf("reading the audit log: %v", err)
	}
	lines := make([]string, 0, len(found))
	for _, r := range found {
		lines = append(lines, r.String())
	}
	return lines
}

// ownPlace is a place for a test that breaks its cluster.
func ownPlace(t *testing.T) *place.Place {
	t.Helper()
	return place.Own(t)
}

// controllerRequests are the controller's writes of Ats and Pods so far.
func controllerRequests(t *testing.T, c *cluster.Cluster) []string {
	t.Helper()
	return lines(t, c, func(r cluster.Request) bool {
		return slices.Contains([]string{"ats", "pods"}, r.ObjectRef.Resource) && slices.Contains([]string{"create", "update"}, r.Verb)
	})
}

// listsAndWatches are the controller's lists, and those of its watches that have
// ended.
func listsAndWatches(t *testing.T, c *cluster.Cluster) []string {
	t.Helper()
	return lines(t, c, func(r cluster.Request) bool { return r.Verb == "list" || r.Verb == "watch" })
}

func lines(t *testing.T, c *cluster.Cluster, keep func(cluster.Request) bool) []string {
	t.Helper()
	found, err := c.Requests(func(r cluster.Request) bool { return r.User.Username == controllerUser && keep(r) })
	if err != nil {
		t.Fatalf("reading the audit log: %v", err)
	}
	all := make([]string, 0, len(found))
	for _, r := range found {
		all = append(all, r.String())
	}
	return all
}

// message is that of the condition Ready, and reason its reason.
func message(object controller.Object) string {
	if ready := meta.FindStatusCondition(*object.StatusConditions(), "Ready"); ready != nil {
		return ready.Message
	}
	return ""
}

func reason(object controller.Object) string {
	if ready := meta.FindStatusCondition(*object.StatusConditions(), "Ready"); ready != nil {
		return ready.Reason
	}
	return ""
}
