//go:build e2e

package e2e

import (
	"maps"
	"os"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// TestRollbackAndUpgradeReplaceNoPods rolls back to the release in E2E_FROM, and upgrades to this version again. If
// Helm installed the operator, the upgrade is a `helm rollback`. It is not parallel, because other tests need the
// operator.
func TestRollbackAndUpgradeReplaceNoPods(t *testing.T) {
	namespace := here.NewNamespace(t)
	previous, err := operator.previous(os.Getenv("E2E_FROM"))
	if err != nil {
		t.Fatal(err)
	}
	here.CreateDatabase(t, namespace, "db", postgresSpec())
	here.Create(t, namespace, "done", "true", nil)
	here.DatabaseIn(t, namespace, "db", v1alpha1.DatabaseReady)
	here.CreateApp(t, namespace, "web", v1alpha1.AppSpec{
		Image: appImage(), DatabaseRef: &v1alpha1.DatabaseReference{Name: "db"},
	})
	here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	here.InPhase(t, namespace, "done", v1.AtDone)
	pods, states := podsOf(t, namespace), statesOf(t, namespace)
	check := func(when string) {
		t.Helper()
		if d := diff.Diff(pods, keep(podsOf(t, namespace), pods)); d != "" {
			t.Errorf("%s, Pods differ (-before +after):\n%s", when, d)
		}
		if d := diff.Diff(states, keep(statesOf(t, namespace), states)); d != "" {
			t.Errorf("%s, Ready has changed (-before +after):\n%s", when, d)
		}
		for _, version := range []string{"v1", "v1alpha1"} {
			if _, err := kubectl(t.Context(), "", "get", "ats."+version+".cnat.programming-kubernetes.info", "-n",
				namespace, "done"); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
	}
	if err := previous.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	here.Create(t, namespace, "then", "true", nil) // to check that the previous release reconciles
	here.InPhase(t, namespace, "then", v1.AtDone)
	check("after the rollback")

	here.CreateApp(t, namespace, "previous", v1alpha1.AppSpec{Image: appImage()})
	here.AppIn(t, namespace, "previous", v1alpha1.AppReady)
	pods, states = podsOf(t, namespace), statesOf(t, namespace)
	if err := operator.forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	here.Create(t, namespace, "now", "true", nil)
	here.InPhase(t, namespace, "now", v1.AtDone)
	check("after the upgrade")
}

// keep removes each entry from all whose key is not in of, and returns all.
func keep(all, of map[string]string) map[string]string {
	maps.DeleteFunc(all, func(key, _ string) bool { _, found := of[key]; return !found })
	return all
}

// podsOf maps the name of each Pod to its UID and the IDs of its containers. A restart of a container changes the
// entry.
func podsOf(t *testing.T, namespace string) map[string]string {
	t.Helper()
	list, err := here.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, pod := range list.Items {
		entry := string(pod.UID)
		for _, status := range pod.Status.ContainerStatuses {
			entry += " " + status.ContainerID
		}
		found[pod.Name] = entry
	}
	return found
}

// statesOf returns the status and the last transition time of the condition Ready of each object.
func statesOf(t *testing.T, namespace string) map[string]string {
	t.Helper()
	states := map[string]string{}
	for _, kind := range []string{"apps.windlass.dev", "databases", "ats"} {
		names, err := kubectl(t.Context(), "", "get", kind, "-n", namespace, "-o",
			`jsonpath={range .items[*]}{.metadata.name} {end}`)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields(names) {
			state, err := kubectl(t.Context(), "", "get", kind, "-n", namespace, name, "-o",
				`jsonpath={.status.conditions[?(@.type=="Ready")].status} `+
					`{.status.conditions[?(@.type=="Ready")].lastTransitionTime}`)
			if err != nil {
				t.Fatal(err)
			}
			states[kind+"/"+name] = state
		}
	}
	return states
}
