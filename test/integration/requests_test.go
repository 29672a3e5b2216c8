//go:build integration

package integration

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/test/framework"
)

// requests returns the controller's requests in a namespace, without lists, watches and requests about Events.
func requests(t *testing.T, namespace string) []string {
	t.Helper()
	return requestsWith(t, func(r framework.Request) bool { return r.ObjectRef.Namespace == namespace })
}

// requestsWith returns the controller's requests for which about returns true, without lists, watches and requests
// about Events.
func requestsWith(t *testing.T, about func(framework.Request) bool) []string {
	t.Helper()
	found, err := shared.Requests(func(r framework.Request) bool {
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

// atAndPodWrites returns the controller's requests so far that create or update Ats and Pods.
func atAndPodWrites(t *testing.T, c *framework.Cluster) []string {
	t.Helper()
	return controllerRequests(t, c, func(r framework.Request) bool {
		return slices.Contains([]string{"ats", "pods"}, r.ObjectRef.Resource) &&
			slices.Contains([]string{"create", "update"}, r.Verb)
	})
}

// listsAndWatches returns the controller's lists, and its watches that have ended.
func listsAndWatches(t *testing.T, c *framework.Cluster) []string {
	t.Helper()
	return controllerRequests(t, c, func(r framework.Request) bool { return r.Verb == "list" || r.Verb == "watch" })
}

// controllerRequests returns the controller's requests to a cluster for which keep returns true.
func controllerRequests(t *testing.T, c *framework.Cluster, keep func(framework.Request) bool) []string {
	t.Helper()
	found, err := c.Requests(func(r framework.Request) bool { return r.User.Username == controllerUser && keep(r) })
	if err != nil {
		t.Fatalf("reading the audit log: %v", err)
	}
	all := make([]string, 0, len(found))
	for _, r := range found {
		all = append(all, r.String())
	}
	return all
}

// message returns the message of the condition Ready, or "".
func message(object controller.Object) string {
	if ready := meta.FindStatusCondition(*object.StatusConditions(), "Ready"); ready != nil {
		return ready.Message
	}
	return ""
}

// reason returns the reason of the condition Ready, or "".
func reason(object controller.Object) string {
	if ready := meta.FindStatusCondition(*object.StatusConditions(), "Ready"); ready != nil {
		return ready.Reason
	}
	return ""
}
