//go:build integration

package neighbours

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"windlass.dev/windlass/test/framework"
)

// neighbour is a tool that deploys objects to a namespace, or a policy for the objects in a namespace.
type neighbour struct {
	name string
	tool func(namespace string) (deployer, error)
	// policy is applied to the namespace before the first object. NAMESPACE stands for the name of the namespace.
	policy string
}

// neighbours are all neighbours. Each has its own namespace, with an object of each kind that uses every field.
var neighbours = []neighbour{
	{name: "kubectl apply", tool: newKubectl},
	{name: "kubectl apply --prune --applyset", tool: newApplySet},
	{name: "Argo CD", tool: newArgo},
	{name: "Argo CD with server-side apply", tool: newServerSideArgo},
	{name: "Flux", tool: newFlux},
	{name: "a mesh that injects containers", tool: newKubectl, policy: mesh},
	{name: "a policy that rewrites images", tool: newKubectl, policy: mirror},
	{name: "a policy that adds labels, annotations and tolerations", tool: newKubectl, policy: additions},
	{name: "a LimitRange and a ResourceQuota", tool: newKubectl, policy: limits},
	{name: "Pod Security baseline", tool: newKubectl, policy: baseline},
}

// room is a namespace with a neighbour.
type room struct {
	neighbour
	namespace string
	deployer  deployer
	git       []*unstructured.Unstructured
	before    map[string]map[string]any // contents at the last rest
}

// TestNeighboursAndOperatorLeaveEachOtherAlone takes the objects of each neighbour through their life. After each
// stage, neither the neighbour nor the operator may have anything to change.
func TestNeighboursAndOperatorLeaveEachOtherAlone(t *testing.T) {
	rooms := enter(t)
	for _, stage := range []struct {
		name string
		run  func(t *testing.T, r *room)
	}{
		{"creation", func(t *testing.T, r *room) { r.deploy(t, r.git); waitReady(t, r.namespace) }},
		{"change", change},
		{"removal of an App", removeApp},
		{"restoration of the App", func(t *testing.T, r *room) { r.deploy(t, r.git); waitReady(t, r.namespace) }},
	} {
		inAll(t, stage.name, rooms, stage.run)
		atRest(t, stage.name, rooms)
	}
	inAll(t, "deletion", rooms, deletion)
}

// enter prepares a namespace for each neighbour.
func enter(t *testing.T) []*room {
	t.Helper()
	rooms := make([]*room, 0, len(neighbours))
	for _, n := range neighbours {
		r := &room{neighbour: n, namespace: shared.NewNamespace(t)}
		r.git = inGit(t, r.namespace)
		if n.policy == "" {
			r.git = append(r.git, theirs(t, r.namespace)...)
		} else {
			applyPolicy(t, r.namespace, n.policy)
		}
		var err error
		if r.deployer, err = n.tool(r.namespace); err != nil {
			t.Fatalf("starting %s: %v", n.name, err)
		}
		t.Cleanup(r.deployer.close)
		rooms = append(rooms, r)
	}
	return rooms
}

// inAll runs a stage for all neighbours at the same time, and ends the test if one fails.
func inAll(t *testing.T, stage string, rooms []*room, run func(t *testing.T, r *room)) {
	t.Helper()
	passed := t.Run(stage, func(t *testing.T) {
		for _, r := range rooms {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				run(t, r)
			})
		}
	})
	if !passed {
		t.FailNow()
	}
}

// deploy changes what is in Git, and lets the neighbour deploy it.
func (r *room) deploy(t *testing.T, git []*unstructured.Unstructured) {
	t.Helper()
	if _, err := r.deployer.sync(t.Context(), git); err != nil {
		t.Fatal(err)
	}
	r.git = git
}

func change(t *testing.T, r *room) {
	t.Helper()
	r.deploy(t, changed(t, r.git))
	waitReady(t, r.namespace)
	after := contents(t, r.namespace)
	for name, object := range r.before {
		kind, _, _ := strings.Cut(name, " ")
		kept := []string{"Secret", "PersistentVolumeClaim"}
		if name == "Pod orders-0" { // a parameter that needs no restart
			kept = append(kept, kind)
		}
		if slices.Contains(kept, kind) && uidOf(after[name]) != uidOf(object) {
			t.Errorf("%s was deleted or replaced", name)
		}
		if diff := cmp.Diff(object["data"], after[name]["data"]); kind == "Secret" && diff != "" &&
			!strings.HasSuffix(name, "-settings") {
			t.Errorf("%s has other data", name)
		}
	}
}

func uidOf(object map[string]any) string {
	uid, _, _ := unstructured.NestedString(object, "metadata", "uid")
	return uid
}

// removeApp removes App web from Git. The tool deletes the App, and its children disappear. Everything else stays.
func removeApp(t *testing.T, r *room) {
	t.Helper()
	all := r.git
	r.deploy(t, without(all, "App", "web"))
	r.git = all
	ofApp := regexp.MustCompile(`^\w+ web(-|$)`)
	framework.Eventually(t, "the App and its children to be deleted", func(ctx context.Context) (bool, error) {
		all, err := contentsOf(ctx, r.namespace)
		return !slices.ContainsFunc(slices.Collect(maps.Keys(all)), ofApp.MatchString), err
	})
	of := func(name string, _ map[string]any) bool { return ofApp.MatchString(name) || given[name] }
	before, after := maps.Clone(r.before), contents(t, r.namespace)
	maps.DeleteFunc(before, of)
	maps.DeleteFunc(after, of)
	if diff := differences(before, after); diff != "" {
		t.Errorf("other objects changed:\n%s", diff)
	}
}

// deletion removes all objects of Windlass' kinds from Git.
func deletion(t *testing.T, r *room) {
	t.Helper()
	git := slices.DeleteFunc(slices.Clone(r.git), func(o *unstructured.Unstructured) bool {
		return slices.Contains([]string{"App", "Database", "ExternalDatabase", "At", "Platform"}, o.GetKind())
	})
	r.deploy(t, git)
	theirs := map[string]bool{}
	for _, object := range git {
		theirs[object.GetKind()+" "+object.GetName()] = true
	}
	framework.Eventually(t, "the objects and all children to be deleted", func(ctx context.Context) (bool, error) {
		all, err := contentsOf(ctx, r.namespace)
		return !slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(name string) bool {
			return !theirs[name] && !strings.Contains(name, " theirs") && !given[name] && !isBackup(name)
		}), err
	})
}

// isBackup reports whether a name is that of a claim with backups, which stays when its Database is deleted.
func isBackup(name string) bool {
	return strings.HasPrefix(name, "PersistentVolumeClaim ") && strings.HasSuffix(name, "-backup")
}

// given are the objects that Kubernetes creates in each namespace, and that a tool keeps for itself.
var given = map[string]bool{"ConfigMap kube-root-ca.crt": true, "ServiceAccount default": true, "ConfigMap set": true}

const (
	// resyncs is how often the operator and the neighbours look at all objects while nothing changes.
	resyncs = 3
	// touched is an annotation that the tests change. Each change causes a reconcile.
	touched = "neighbours.example.com/touched"
)

// atRest lets the operator and the neighbours look at all objects, and fails the test if one of them changes something.
func atRest(t *testing.T, stage string, rooms []*room) {
	t.Helper()
	for _, r := range rooms {
		r.before = contents(t, r.namespace)
	}
	writes := writesIn(t, rooms)
	for i := range resyncs {
		resync(t, rooms, fmt.Sprintf("after %s, %d", stage, i))
		inAll(t, "rest after "+stage, rooms, func(t *testing.T, r *room) {
			git := r.git
			if stage == "removal of an App" {
				git = without(git, "App", "web")
			}
			if differed, err := r.deployer.sync(t.Context(), git); err != nil || len(differed) > 0 {
				t.Errorf("%s found differences at rest: %q: %v", r.name, differed, err)
			}
			if diff := differences(r.before, contents(t, r.namespace)); diff != "" {
				t.Errorf("somebody changed objects at rest:\n%s", diff)
			}
		})
	}
	for name, after := range writesIn(t, rooms) {
		if more := after[len(writes[name]):]; len(more) > 0 {
			t.Errorf("%s: the operator wrote at rest after %s:\n%s", name, stage, strings.Join(more, "\n"))
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// writesIn returns the writes of the operator in each room, by the name of the neighbour.
func writesIn(t *testing.T, rooms []*room) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, r := range rooms {
		requests, err := shared.Requests(func(request framework.Request) bool {
			ref := request.ObjectRef
			return (ref.Namespace == r.namespace || ref.Resource == "platforms" && ref.Name == r.namespace) &&
				slices.Contains([]string{"create", "update", "patch", "delete"}, request.Verb) &&
				request.User.Username == framework.ControllerUser && ref.Resource != "events"
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, request := range requests {
			found[r.name] = append(found[r.name], request.String())
		}
	}
	return found
}

// resync makes the operator reconcile all objects in all rooms, and returns when it has.
func resync(t *testing.T, rooms []*room, value string) {
	t.Helper()
	before, wanted := reconciles(t), map[string]int{}
	for _, r := range rooms {
		for _, object := range touch(t, r.namespace, value) {
			wanted[strings.ToLower(object.GetKind())]++
		}
	}
	framework.Eventually(t, "all objects to be reconciled", func(context.Context) (bool, error) {
		now := reconciles(t)
		for controller, more := range wanted {
			if now[controller]-before[controller] < more {
				return false, nil
			}
		}
		return true, nil
	})
}

// touch sets the annotation touched of all objects of Windlass' kinds in a namespace. It returns the objects.
func touch(t *testing.T, namespace, value string) []unstructured.Unstructured {
	t.Helper()
	client, err := dynamic.NewForConfig(shared.Config())
	if err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"metadata":{"annotations":{` + strconv.Quote(touched) + `:` + strconv.Quote(value) + `}}}`)
	var all []unstructured.Unstructured
	for i, resource := range kinds {
		objects, err := objectsOf(t.Context(), namespace, kinds[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			if _, err := client.Resource(resource).Namespace(object.GetNamespace()).Patch(t.Context(), object.GetName(),
				types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, objects...)
	}
	return all
}

// reconcileCount matches a line of the metric that counts reconciles.
var reconcileCount = regexp.MustCompile(`(?m)^controller_runtime_reconcile_total\{controller="(\w+)",.*\} (\d+)$`)

// reconciles returns the number of reconciles so far, by the kind in lower case.
func reconciles(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, line := range reconcileCount.FindAllStringSubmatch(operator.Get(t, "/metrics"), -1) {
		count, err := strconv.Atoi(line[2])
		if err != nil {
			t.Fatal(err)
		}
		counts[line[1]] += count
	}
	return counts
}
