//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/cluster"
	"windlass.dev/windlass/test/world"
)

// TestWritesGrowWithTheNumberOfComponents counts what Platforms of three sizes cost, of
// which half the components need another.
func TestWritesGrowWithTheNumberOfComponents(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10, 50, 200} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			namespace := shared.NewNamespace(t)
			shared.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{Namespace: namespace, Components: halves(n)})
			shared.PlatformIn(t, namespace, v1alpha1.PlatformReady)
			made := spent(t, namespace)
			// The status of a Platform follows those of its children, of which the more
			// come at once the more there are.
			says, most := made["update platforms/status"], n/2+30
			if says > most {
				t.Errorf("%d components cost %d writes of the status", n, says)
			}
			want := map[string]int{"create ats": n, "update ats/status": 2 * n, "patch platforms": 1, "update platforms/status": says, "get platforms": made["get platforms"]}
			if made["get platforms"] > n { // once in a pass that makes Ats, and in each second
				t.Errorf("%d components were made with %d reads", n, made["get platforms"])
			}
			if diff := cmp.Diff(want, made); diff != "" {
				t.Errorf("%d components cost (-wanted +got):\n%s", n, diff)
			}
			deletePlatform(t, shared, namespace)
			all := spent(t, namespace)
			more := all["update platforms/status"] - says
			if more > most {
				t.Errorf("to be rid of %d components cost %d writes of the status", n, more)
			}
			want["delete ats"], want["get platforms"], want["patch platforms"], want["update platforms/status"] = n, n+made["get platforms"], 2, says+more
			if diff := cmp.Diff(want, all); diff != "" {
				t.Errorf("%d components made and removed cost (-wanted +got):\n%s", n, diff)
			}
			t.Logf("%d components: made with %v, and all in all %v", n, made, all)
		})
	}
}

// halves are n components, of which each of the second half needs one of the first.
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

// spent counts the controller's requests about a Platform and its Ats, by verb and type.
func spent(t *testing.T, namespace string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, line := range lines(t, shared.Cluster, func(r cluster.Request) bool {
		ref := r.ObjectRef
		return r.Verb != "watch" && (ref.Resource == "platforms" && ref.Name == namespace || ref.Resource == "ats" && ref.Namespace == namespace)
	}) {
		counts[strings.Join(strings.Fields(line)[:2], " ")]++
	}
	return counts
}

// TestAChangeCostsOneStatusWrite changes what a child says, and counts.
func TestAChangeCostsOneStatusWrite(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{Namespace: namespace, Components: components{suspended(task("gate")), task("job"), web("web:1", unmanaged)}})
	component(t, shared, namespace, "job", "Done")
	shared.PlatformWith(t, namespace, "at rest", func(p *v1alpha1.Platform) bool { return p.Status.Components[0].Reason == "Suspended" })
	before := spent(t, namespace)["update platforms/status"]
	shared.CreateApp(t, namespace, namespace+"-web", smallest()) // somebody else's, of which it tells
	component(t, shared, namespace, "web", "Ready")
	phases := appPhases(t, namespace)
	if writes := spent(t, namespace)["update platforms/status"] - before; writes > phases+1 {
		t.Errorf("%d changes of the App's status cost %d writes", phases, writes)
	}
	before = spent(t, namespace)["update platforms/status"]
	shared.UpdatePlatform(t, namespace, func(p *v1alpha1.Platform) { p.Spec.Components[2].App.Image = "else:1" })
	shared.PlatformWith(t, namespace, "told", func(*v1alpha1.Platform) bool { return true })
	world.Eventually(t, "the write to be noted", func(context.Context) (bool, error) {
		return spent(t, namespace)["update platforms/status"] > before, nil
	})
	if writes := spent(t, namespace)["update platforms/status"] - before; writes != 1 {
		t.Errorf("a new generation without any other change cost %d writes", writes)
	}
}

// appPhases is how often the status of an App was written.
func appPhases(t *testing.T, namespace string) int {
	t.Helper()
	return len(lines(t, shared.Cluster, func(r cluster.Request) bool {
		return r.ObjectRef.Namespace == namespace && r.ObjectRef.Resource == "apps" && r.ObjectRef.Subresource == "status"
	}))
}
