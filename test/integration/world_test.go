//go:build integration

package integration

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/cluster"
)

// newNamespace returns the name of a namespace that is the test's own.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace, err := shared.kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	return namespace.Name
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func(ctx context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, holds); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// create creates an At whose command is run by sh, after change has had its way
// with it.
func create(t *testing.T, namespace, name, line string, change func(*v1.At)) *v1.At {
	t.Helper()
	at := &v1.At{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1.AtSpec{Schedule: "2020-01-01T00:00:00Z", Command: []string{"sh", "-c", line}},
	}
	if change != nil {
		change(at)
	}
	at, err := shared.cnat.CnatV1().Ats(namespace).Create(t.Context(), at, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating At %s/%s: %v", namespace, name, err)
	}
	return at
}

// inPhase waits for a phase and returns the At as it is then.
func inPhase(t *testing.T, namespace, name string, phase v1.AtPhase) *v1.At {
	t.Helper()
	var at *v1.At
	eventually(t, "At "+name+" to be "+string(phase), func(ctx context.Context) (_ bool, err error) {
		at, err = shared.cnat.CnatV1().Ats(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && at.Status.Phase == phase, err
	})
	return at
}

// soon is a schedule some seconds ahead.
func soon() string { return time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339) }

// requests are those of the controller about a namespace, events and watches left
// out.
func requests(t *testing.T, namespace string) []string {
	t.Helper()
	found, err := shared.Requests(func(r cluster.Request) bool {
		return r.User.Username == controllerUser && r.ObjectRef.Namespace == namespace &&
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

// launch starts a controller on a cluster, with further flags.
func launch(t *testing.T, c *cluster.Cluster, flags ...string) *process {
	t.Helper()
	p, err := startController(t.Context(), c, flags...)
	if err != nil {
		t.Fatal(err)
	}
	return p
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
