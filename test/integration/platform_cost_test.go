//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestPlatformWritesGrowLinearlyWithComponents counts the requests for Platforms of three sizes. Half of the
// components depend on another component.
func TestPlatformWritesGrowLinearlyWithComponents(t *testing.T) {
	framework.InQuarter(t)
	t.Parallel()
	for _, n := range []int{10, 50, 200} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			namespace := shared.NewNamespace(t)
			shared.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{Namespace: namespace, Components: halves(n)})
			shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
			creation := requestCounts(t, namespace)
			// The status of a Platform follows the statuses of its children. With more children, one write of the
			// status covers more changes.
			statusWrites, most := creation["update platforms/status"], n/2+30
			if statusWrites > most {
				t.Errorf("creating %d components took %d status writes, want at most %d", n, statusWrites, most)
			}
			want := map[string]int{
				"create ats": n, "update ats/status": 2 * n, "patch platforms": 1,
				"update platforms/status": statusWrites, "get platforms": creation["get platforms"],
			}
			if creation["get platforms"] > n { // a reconcile that creates Ats reads the Platform at most once a second
				t.Errorf("creating %d components took %d reads of the Platform, want at most %d", n, creation["get platforms"], n)
			}
			if diff := cmp.Diff(want, creation); diff != "" {
				t.Errorf("requests for the creation of %d components (-want +got):\n%s", n, diff)
			}
			deletePlatform(t, shared, namespace)
			all := requestCounts(t, namespace)
			more := all["update platforms/status"] - statusWrites
			if more > most {
				t.Errorf("deleting %d components took %d status writes, want at most %d", n, more, most)
			}
			want["delete ats"] = n
			want["get platforms"] = n + creation["get platforms"]
			want["patch platforms"] = 2
			want["update platforms/status"] = statusWrites + more
			if diff := cmp.Diff(want, all); diff != "" {
				t.Errorf("requests for the creation and deletion of %d components (-want +got):\n%s", n, diff)
			}
			t.Logf("%d components: the creation took %v, and creation and deletion together %v", n, creation, all)
		})
	}
}

// halves returns n components. Each component of the second half depends on a component of the first half.
func halves(n int) (all components) {
	for i := range n {
		c := task(fmt.Sprintf("c%03d", i))
		if i >= n/2 {
			c.DependsOn = []v1alpha1.ComponentName{all[i-n/2].Name}
		}
		all = append(all, c)
	}
	return all
}

// requestCounts returns the numbers of the controller's requests about a Platform and its Ats, without watches. The
// keys consist of a verb and a resource.
func requestCounts(t *testing.T, namespace string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, line := range controllerRequests(t, shared.Cluster, func(r framework.Request) bool {
		ref := r.ObjectRef
		return r.Verb != "watch" && (ref.Resource == "platforms" && ref.Name == namespace || ref.Resource == "ats" &&
			ref.Namespace == namespace)
	}) {
		counts[strings.Join(strings.Fields(line)[:2], " ")]++
	}
	return counts
}

// TestPlatformWritesStatusOncePerChange counts the status writes of a Platform after changes of a child's status.
func TestPlatformWritesStatusOncePerChange(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{
		Namespace: namespace, Components: components{suspended(task("gate")), task("job"), web("web:1", unmanaged)},
	})
	component(t, shared, namespace, "job", "Done")
	shared.PlatformWith(t, namespace, "at rest", func(p *v1alpha1.Platform) bool {
		return p.Status.Components[0].Reason == "Suspended"
	})
	before := requestCounts(t, namespace)["update platforms/status"]
	shared.CreateApp(t, namespace, namespace+"-web", smallest()) // a foreign App, whose phase the status reports
	component(t, shared, namespace, "web", "Ready")
	changes := appStatusWrites(t, namespace)
	if writes := requestCounts(t, namespace)["update platforms/status"] - before; writes > changes+1 {
		t.Errorf("%d changes of the App's status caused %d status writes", changes, writes)
	}
	before = requestCounts(t, namespace)["update platforms/status"]
	shared.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) { p.Spec.Components[2].App.Image = "else:1" })
	shared.PlatformWith(t, namespace, "of the new generation", func(*v1alpha1.Platform) bool { return true })
	framework.Eventually(t, "the status write to be in the audit log", func(context.Context) (bool, error) {
		return requestCounts(t, namespace)["update platforms/status"] > before, nil
	})
	if writes := requestCounts(t, namespace)["update platforms/status"] - before; writes != 1 {
		t.Errorf("a new generation without any other change caused %d status writes, want 1", writes)
	}
}

// appStatusWrites returns the number of the controller's writes to the status of Apps in a namespace.
func appStatusWrites(t *testing.T, namespace string) int {
	t.Helper()
	return len(controllerRequests(t, shared.Cluster, func(r framework.Request) bool {
		return r.ObjectRef.Namespace == namespace && r.ObjectRef.Resource == "apps" && r.ObjectRef.Subresource == "status"
	}))
}
