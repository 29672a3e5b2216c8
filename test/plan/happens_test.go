//go:build integration

package plan

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"k8s.io/client-go/dynamic"

	"windlass.dev/windlass/cmd/kubectl-windlass/planner"
	"windlass.dev/windlass/pkg/plan"
	"windlass.dev/windlass/test/framework"
)

var only = flag.String("plan.only", "", "plan only the changes whose names match this regular expression")

// scenario is a change of the objects in a namespace.
type scenario struct {
	name string
	// create creates the objects that exist before the change. Nil means that no objects exist.
	create func(t *testing.T, namespace string)
	// ready waits until the operator has nothing left to do for these objects.
	ready func(t *testing.T, namespace string)
	// change makes the change. The test calls it first with the client of a plan, and then with a client of the API
	// server.
	change func(ctx context.Context, client dynamic.Interface, namespace string) error
	// unordered is true if several controllers write at the same time. The test then compares the order of the writes to
	// each object, and not the order of all writes.
	unordered bool
	// collects is true if the garbage collector has to act, or Pods have to end. The operator then does not observe states
	// that end soon.
	collects bool
	// grows is true if a volume grows. The simulated storage enlarges the volume at any time, and the status follows the
	// volume.
	grows bool
}

// TestPlanIsWhatHappens plans changes, makes them, and compares the planned writes and SQL statements with the writes
// and statements of the operator. During the changes, only the operator, the garbage collector, the node and the
// simulated storage run. The node ends deleted Pods. It starts no Pods, because no scheduler runs.
func TestPlanIsWhatHappens(t *testing.T) {
	// An autoscaler without metrics changes the status of its App after some minutes, which a plan cannot know.
	if err := errors.Join(shared.Stop(controllerManager), shared.StartComponent(controllerManager,
		"--controllers=*,-horizontal-pod-autoscaler-controller")); err != nil {
		t.Fatal(err)
	}
	all, namespaces := scenarios(t), map[string]string{}
	all = slices.DeleteFunc(all, func(s scenario) bool { return !regexp.MustCompile(*only).MatchString(s.name) })
	for _, s := range all {
		namespaces[s.name] = shared.NewNamespace(t)
	}
	t.Run("create", func(t *testing.T) {
		for _, s := range all {
			if s.create != nil {
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					s.create(t, namespaces[s.name])
				})
			}
		}
	})
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
	shared.StopGateways()
	t.Cleanup(shared.StartGateways)
	for _, component := range []string{controllerManager, scheduler, node} {
		if err := shared.Stop(component); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := errors.Join(shared.Stop(controllerManager), shared.StartComponent(controllerManager),
			shared.StartComponent(scheduler)); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(shared.StartComponent(controllerManager, "--controllers=garbage-collector-controller"),
		shared.StartComponent(node)); err != nil {
		t.Fatal(err)
	}
	compare(t, all, namespaces)
}

// Components of the cluster.
const (
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	node              = "kwok"
)

// compare plans the changes of all scenarios, makes the changes, and compares the planned writes with the writes of the
// operator.
func compare(t *testing.T, all []scenario, namespaces map[string]string) {
	t.Helper()
	ctx := t.Context()
	p, err := planner.New(ctx, shared.Config(), options())
	if err != nil {
		t.Fatal(err)
	}
	rejections := map[string]error{}                         // errors of the changes in the plan, by scenario
	writes, statements := map[string]int{}, map[string]int{} // the numbers before the change, by scenario
	for _, s := range all {
		rejections[s.name] = s.change(ctx, p.Dynamic, namespaces[s.name])
	}
	if err := p.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		all[i].collects = s.collects || slices.ContainsFunc(p.Server.Writes(), func(w plan.Write) bool {
			return w.Writer == plan.GarbageCollector && w.Namespace == namespaces[s.name]
		})
	}
	for _, s := range all {
		writes[s.name], statements[s.name] = len(operating.writes.in(namespaces[s.name])), len(executed(namespaces[s.name]))
		err := s.change(ctx, dynamic.NewForConfigOrDie(shared.Config()), namespaces[s.name])
		if fmt.Sprint(err) != fmt.Sprint(rejections[s.name]) {
			t.Errorf("%s: the API server returns the error %v, but in the plan %v", s.name, err, rejections[s.name])
		}
	}
	happened := func(s scenario) []string {
		return written(t, operating.writes.in(namespaces[s.name])[writes[s.name]:])
	}
	difference := func(s scenario) string {
		namespace := namespaces[s.name]
		return cmp.Or(
			s.difference(planned(t, p.Server.Writes(), namespace), happened(s)),
			diff.Diff(plannedStatements(p.Server.Writes(), namespace), executed(namespace)[statements[s.name]:]),
		)
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the plan is not what happens (-planned +happened):\n%s\nall writes that happened:\n%s", difference(s),
						strings.Join(happened(s), "\n---\n")) // the difference shortens them
				}
			})
			framework.Eventually(t, "what was planned", func(context.Context) (bool, error) { return difference(s) == "", nil })
		})
	}
	for _, s := range all { // the operator has had time for writes that were not planned
		if text := difference(s); text != "" {
			t.Errorf("%s: the operator did more later (-planned +happened):\n%s", s.name, text)
		}
	}
}
