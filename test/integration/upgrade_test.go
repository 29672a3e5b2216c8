//go:build integration

package integration

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/cluster"
	"windlass.dev/windlass/test/place"
	"windlass.dev/windlass/test/world"
)

// formerRelease is the version from which the test upgrades, unless the variable UPGRADE_FROM names another commit or
// tag.
const formerRelease = "f720da2"

// writesOfAnUpgrade lists all writes that an upgrade from formerRelease causes. None of these writes restarts a Pod.
var writesOfAnUpgrade = []string{
	"patch persistentvolumeclaims by-database/shop",           // removes the labels by which GitOps tools select objects to prune
	"patch persistentvolumeclaims by-platform/by-platform-db", // removes the same labels
	"update platforms/status /by-platform",                    // records the UID of the Platform's namespace
}

// TestUpgradeRestartsNothing upgrades the operator in a cluster with objects of every kind: Ready objects whose
// specs set every field, an At that is Done, and an At that is Pending.
func TestUpgradeRestartsNothing(t *testing.T) {
	t.Parallel()
	from := os.Getenv("UPGRADE_FROM")
	if from == "" {
		from = formerRelease
	}
	release := place.Build(t, from)
	p := release.Own(t)
	former := release.Launch(t, p.Cluster)
	for _, o := range owners {
		namespace := "by-" + o.name
		if _, err := p.Kubectl(t.Context(), "", "create", "namespace", namespace); err != nil {
			t.Fatal(err)
		}
		createEverything(t, o, p, namespace)
	}
	p.Create(t, "default", "done", "true", nil)
	p.InPhase(t, "default", "done", v1.AtDone)
	p.Create(t, "default", "pending", "true", func(at *v1.At) { at.Spec.Schedule = "2100-01-01T00:00:00Z" })
	p.InPhase(t, "default", "pending", v1.AtPending)
	former.Terminate()
	writes := func() []string {
		return controllerRequests(t, p.Cluster, func(r cluster.Request) bool {
			ofObjects := strings.HasPrefix(r.ObjectRef.Namespace, "by-") || strings.HasPrefix(r.ObjectRef.Name, "by-") || r.ObjectRef.Namespace == "default"
			reads := r.Verb == "get" || r.Verb == "list" || r.Verb == "watch"
			return ofObjects && !reads && r.ObjectRef.Resource != "events"
		})
	}
	before := writes()

	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Install(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	next := place.Launch(t, p.Cluster)
	for _, name := range []string{"app", "database", "externaldatabase", "platform", "at"} {
		reconciled := regexp.MustCompile(`controller_runtime_reconcile_total\{controller="` + name + `",result="(requeue_after|success)"\} [1-9]`)
		world.Eventually(t, name+" to be reconciled", func(context.Context) (bool, error) { return reconciled.MatchString(next.Get(t, "/metrics")), nil })
	}
	// Wait for a new App, so that the workers have time to reconcile the existing objects too.
	p.CreateApp(t, "default", "last", smallest())
	p.AppIn(t, "default", "last", "Ready")
	for _, o := range owners {
		o.ready(t, p, "by-"+o.name)
	}
	next.Terminate()
	made := slices.DeleteFunc(writes()[len(before):], func(write string) bool { return strings.HasSuffix(write, " default/last") })
	inAnyOrder := cmpopts.SortSlices(func(a, b string) bool { return a < b })
	if diff := cmp.Diff(writesOfAnUpgrade, made, inAnyOrder, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("writes of an upgrade from %s (-want +got):\n%s", from, diff)
	}
}
