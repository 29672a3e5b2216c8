//go:build integration

package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/dynamic"

	"windlass.dev/windlass/cmd/kubectl-windlass/planner"
	"windlass.dev/windlass/test/world"
)

// scenario is a change of the objects in a namespace.
type scenario struct {
	name string
	// create creates the objects before the change. Nil means that there are none.
	create func(t *testing.T, namespace string)
	// ready waits until the operator has nothing left to do for these objects.
	ready func(t *testing.T, namespace string)
	// change makes the change through a client: first of a plan, and then of the API server.
	change func(ctx context.Context, client dynamic.Interface, namespace string) error
	// unordered is true if several controllers write at the same time. Then the order of the writes of each object
	// counts.
	unordered bool
	// grows is true if a volume grows, which the simulated storage does at any time. Then the status follows the volume.
	grows bool
	// collects is true if the garbage collector has to act.
	collects bool
}

// TestPlanIsWhatHappens plans changes, makes them, and compares the planned writes with the writes of the operator.
// Nothing but the operator acts meanwhile: there is no controller manager, scheduler or node. Only where a plan includes
// what the garbage collector does, the controller manager and the node run, and the test does not compare the writes of
// statuses.
func TestPlanIsWhatHappens(t *testing.T) {
	all, namespaces := scenarios(), map[string]string{}
	for _, s := range all {
		namespaces[s.name] = shared.NewNamespace(t)
		if s.create != nil {
			s.create(t, namespaces[s.name])
		}
	}
	t.Run("ready", func(t *testing.T) {
		for _, s := range all {
			if s.ready == nil {
				continue
			}
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.ready(t, namespaces[s.name])
			})
		}
	})
	for _, component := range []string{controllerManager, scheduler, node} {
		if err := shared.Stop(component); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := shared.StartComponent(scheduler); err != nil {
			t.Error(err)
		}
	})
	sent := map[string]int{}
	for _, s := range all {
		if s.collects {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			if n := s.compare(t, namespaces[s.name]); !s.grows {
				sent[s.name] = n
			}
		})
	}
	for name, n := range sent { // the operator has had time for writes that were not planned
		if got := written(t, operating.writes.in(namespaces[name])); len(got) != n {
			t.Errorf("%s: the operator wrote later:\n%s", name, strings.Join(got[min(len(got), n):], "\n"))
		}
	}
	for _, component := range []string{controllerManager, node} {
		if err := shared.StartComponent(component); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range all {
		if s.collects {
			t.Run(s.name, func(t *testing.T) { s.compare(t, namespaces[s.name]) })
		}
	}
}

// Components of the cluster.
const (
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	node              = "kwok"
)

// compare plans and makes the change, and returns the number of all writes about the namespace so far.
func (s *scenario) compare(t *testing.T, namespace string) (sent int) {
	ctx := t.Context()
	before := len(operating.writes.in(namespace))
	p, err := planner.New(ctx, shared.Config(), options())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.change(ctx, p.Dynamic, namespace); err != nil {
		t.Fatalf("planning the change: %v", err)
	}
	if err := p.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	want := s.sorted(planned(t, p.Writes(), namespace))
	if err := s.change(ctx, dynamic.NewForConfigOrDie(shared.Config()), namespace); err != nil {
		t.Fatalf("making the change: %v", err)
	}
	var got []string
	if t.Cleanup(func() {
		if t.Failed() {
			t.Logf("writes (-planned +written):\n%s", cmp.Diff(want, got))
		}
	}); len(want) > 0 {
		world.Eventually(t, fmt.Sprintf("%d writes", len(want)), func(context.Context) (bool, error) {
			got = s.sorted(written(t, operating.writes.in(namespace)[before:]))
			return len(got) >= len(want), nil
		})
	}
	if !slices.Equal(want, got) {
		t.Errorf("the plan has %d writes, and the operator sent %d writes, or they differ", len(want), len(got))
	}
	return len(operating.writes.in(namespace))
}

// sorted returns the writes that are compared, in an order in which they can be compared.
func (s *scenario) sorted(writes []string) []string {
	if s.collects || s.grows {
		writes = slices.DeleteFunc(writes, func(w string) bool {
			line, _, _ := strings.Cut(w, "\n")
			return strings.Contains(line, "/status ") || strings.HasSuffix(line, ": 409") // the garbage collector was faster
		})
		for i := range writes { // the garbage collector removes its own finalizer at any time
			writes[i] = strings.Replace(writes[i], "finalizers:\n  - foregroundDeletion\n", "finalizers: []\n", 1)
		}
	}
	if !s.unordered {
		return writes
	}
	return slices.SortedStableFunc(slices.Values(writes), func(a, b string) int {
		object := func(w string) string {
			line, _, _ := strings.Cut(w, ":")
			_, line, _ = strings.Cut(line, " ")
			return strings.Replace(line, "/status", "", 1)
		}
		return strings.Compare(object(a), object(b))
	})
}
