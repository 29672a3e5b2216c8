//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/framework"
)

// previousRelease is the version from which the test upgrades. The environment variable UPGRADE_FROM can name another
// commit or tag.
const previousRelease = "f6b51412"

// writesOfAnUpgrade lists all writes that an upgrade from previousRelease causes, and writesOfARollback lists all
// writes that a rollback to previousRelease causes.
var writesOfAnUpgrade, writesOfARollback []string

// TestUpgradeAndRollbackRestartNothing upgrades the operator in a cluster with objects of every kind: Ready objects
// whose specs set every field, an At that is Done, and an At that is Pending. The test then deletes the operator's
// namespace and Lease, and installs the new version again. Finally it rolls back to the previous release.
func TestUpgradeAndRollbackRestartNothing(t *testing.T) {
	t.Parallel()
	from := os.Getenv("UPGRADE_FROM")
	if from == "" {
		from = previousRelease
	}
	release := framework.Build(t, from)
	u := &upgrade{Installation: release.Own(t)}
	previous := release.Launch(t, u.Cluster)
	u.populate(t)
	previous.Terminate()
	u.seen = len(u.writes(t))
	workloads, states := u.workloads(t), u.states(t)
	changelog := newestSection(t)

	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Install(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	u.run(t, framework.Launch(t, u.Cluster), "upgraded", writesOfAnUpgrade)
	workloads = u.checkRestarts(t, workloads, namedRestarts(changelog, "Restarts"))
	u.loseOperator(t, root)
	u.run(t, framework.Launch(t, u.Cluster), "recovered", nil)
	workloads = u.checkRestarts(t, workloads, nil)
	if err := release.Install(t.Context(), u.Installation); err != nil {
		t.Fatal(err)
	}
	u.run(t, release.Launch(t, u.Cluster), "rolled-back", writesOfARollback)
	u.checkRestarts(t, workloads, namedRestarts(changelog, "Restarts after a rollback"))
	if diff := cmp.Diff(states, u.states(t)); diff != "" {
		t.Errorf("Ready has changed for a while (-before +after):\n%s", diff)
	}
}

// upgrade is an installation in which an operator is replaced.
type upgrade struct {
	*framework.Installation
	seen int // the number of writes so far
}

// populate creates the objects, and returns when they are Ready.
func (u *upgrade) populate(t *testing.T) {
	t.Helper()
	for _, o := range owners {
		namespace := "by-" + o.name
		if _, err := u.Kubectl(t.Context(), "", "create", "namespace", namespace); err != nil {
			t.Fatal(err)
		}
		createEverything(t, o, u.Installation, namespace)
	}
	u.Create(t, "default", "done", "true", nil)
	u.InPhase(t, "default", "done", v1.AtDone)
	u.Create(t, "default", "pending", "true", func(at *v1.At) { at.Spec.Schedule = "2100-01-01T00:00:00Z" })
	u.InPhase(t, "default", "pending", v1.AtPending)
}

// loseOperator deletes the namespace of the operator and its Lease in kube-system, and applies the manifests in root
// again.
func (u *upgrade) loseOperator(t *testing.T, root string) {
	t.Helper()
	for _, lost := range [][]string{
		{"namespace", "windlass-system"}, {"--namespace", "kube-system", "lease", "windlass-controller"},
	} {
		if _, err := u.Kubectl(t.Context(), "", append([]string{"delete"}, lost...)...); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Install(t.Context(), root); err != nil {
		t.Fatal(err)
	}
}

// run waits until next has reconciled every object, stops next, and checks conversions and writes.
func (u *upgrade) run(t *testing.T, next *framework.Process, name string, writes []string) {
	t.Helper()
	for _, kind := range []string{"app", "database", "externaldatabase", "platform", "at"} {
		reconciled := regexp.MustCompile(`controller_runtime_reconcile_total\{controller="` + kind +
			`",result="(requeue_after|success)"\} [1-9]`)
		framework.Eventually(t, kind+" to be reconciled", func(context.Context) (bool, error) {
			return reconciled.MatchString(next.Get(t, "/metrics")), nil
		})
	}
	// Wait for a new App and a new Database, so that the workers have time to reconcile the existing objects too.
	u.CreateApp(t, "default", name, smallest())
	u.CreateDatabase(t, "default", name+"-db", framework.SmallestDatabase())
	u.AppIn(t, "default", name, "Ready")
	u.DatabaseIn(t, "default", name+"-db", "Ready")
	for _, o := range owners {
		o.ready(t, u.Installation, "by-"+o.name)
	}
	for _, version := range []string{"v1", "v1alpha1"} {
		names, err := u.Kubectl(t.Context(), "", "get", "ats."+version+".cnat.programming-kubernetes.info", "-n",
			"default", "-o", "name")
		if err != nil || strings.Count(names, "\n") != 2 {
			t.Errorf("%s: listing Ats as %s: %q, %v", name, version, names, err)
		}
	}
	next.Terminate()
	made := slices.DeleteFunc(u.writes(t)[u.seen:], func(write string) bool {
		return strings.HasSuffix(write, " default/"+name) || strings.Contains(write, " default/"+name+"-db")
	})
	u.seen = len(u.writes(t))
	inAnyOrder := cmpopts.SortSlices(func(a, b string) bool { return a < b })
	if diff := cmp.Diff(writes, made, inAnyOrder, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("writes of the version that was %s (-want +got):\n%s", name, diff)
	}
}

// writes returns all writes of operators to the objects and their children, except Events.
func (u *upgrade) writes(t *testing.T) []string {
	t.Helper()
	return controllerRequests(t, u.Cluster, func(r framework.Request) bool {
		ofObjects := strings.HasPrefix(r.ObjectRef.Namespace, "by-") || strings.HasPrefix(r.ObjectRef.Name, "by-") ||
			r.ObjectRef.Namespace == "default"
		reads := r.Verb == "get" || r.Verb == "list" || r.Verb == "watch"
		return ofObjects && !reads && r.ObjectRef.Resource != "events"
	})
}

// workloads returns a number for each workload that grows when the Pods are replaced: the revision of a Deployment, and
// the generation of a StatefulSet. The generation of a Deployment also grows when its annotations or its strategy
// change.
func (u *upgrade) workloads(t *testing.T) map[string]int64 {
	t.Helper()
	found := map[string]int64{}
	deployments, err := u.Kube.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deployments.Items {
		workload := fmt.Sprintf("Deployment %s/%s of App", d.Namespace, d.Name)
		if found[workload], err = strconv.ParseInt(d.Annotations["deployment.kubernetes.io/revision"], 10, 64); err != nil {
			t.Fatalf("reading the revision of %s: %v", workload, err)
		}
	}
	sets, err := u.Kube.AppsV1().StatefulSets("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sets.Items {
		found[fmt.Sprintf("StatefulSet %s/%s of Database", s.Namespace, s.Name)] = s.Generation
	}
	return found
}

// checkRestarts compares the current workloads with the workloads before, and returns the current workloads. The map
// named must contain exactly the kinds whose Pods were replaced.
func (u *upgrade) checkRestarts(t *testing.T, before map[string]int64, named map[string]bool) map[string]int64 {
	t.Helper()
	now, restarted := u.workloads(t), map[string]bool{}
	for workload, generation := range before {
		if now[workload] == generation {
			continue
		}
		_, kind, _ := strings.Cut(workload, " of ")
		restarted[kind] = true
		if !named[kind] {
			t.Errorf("the Pods of %s were replaced: CHANGELOG.md must name the kind, and say why", workload)
		}
	}
	for kind := range named {
		if !restarted[kind] {
			t.Errorf("CHANGELOG.md says that Pods of %s are replaced, but none was", kind)
		}
	}
	return now
}

// states returns the status and the lastTransitionTime of the condition Ready of each object.
func (u *upgrade) states(t *testing.T) string {
	t.Helper()
	states, err := u.Kubectl(t.Context(), "", "get", "apps.windlass.dev,databases,externaldatabases,ats,platforms",
		"--all-namespaces", "--field-selector",
		"metadata.name!=upgraded,metadata.name!=recovered,metadata.name!=rolled-back,"+
			"metadata.name!=upgraded-db,metadata.name!=recovered-db,metadata.name!=rolled-back-db",
		"-o", `jsonpath={range .items[*]}{.kind} {.metadata.name} {.status.phase} `+
			`{.status.conditions[?(@.type=="Ready")].status} `+
			`{.status.conditions[?(@.type=="Ready")].lastTransitionTime}{"\n"}{end}`)
	if err != nil {
		t.Fatal(err)
	}
	return states
}

// restartLine is a line of CHANGELOG.md that names a kind whose Pods an upgrade replaces.
var restartLine = regexp.MustCompile(`(?m)^\* \*\*(\w+)\*\*:`)

// newestSection returns the newest section of CHANGELOG.md.
func newestSection(t *testing.T) string {
	t.Helper()
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, newest, _ := strings.Cut(string(changelog), "\n## ")
	newest, _, _ = strings.Cut(newest, "\n## ")
	return newest
}

// namedRestarts returns the kinds that a section of a changelog lists below a heading.
func namedRestarts(newest, heading string) map[string]bool {
	_, section, _ := strings.Cut(newest, "\n### "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n### ")
	named := map[string]bool{}
	for _, found := range restartLine.FindAllStringSubmatch(section, -1) {
		named[found[1]] = true
	}
	return named
}

func TestRestartsAreReadBelowTheirHeading(t *testing.T) {
	t.Parallel()
	const newest = "[0.3.0]\n\n### Restarts\n\n* **Database**: for another image.\n\n### Restarts after a " +
		"rollback\n\n* **App**: for a token.\n\n### Added\n\n* **At**: not here\n"
	for heading, want := range map[string]map[string]bool{
		"Restarts": {"Database": true}, "Restarts after a rollback": {"App": true}, "Fixed": {},
	} {
		if diff := cmp.Diff(want, namedRestarts(newest, heading)); diff != "" {
			t.Errorf("below %s (-want +got):\n%s", heading, diff)
		}
	}
}
