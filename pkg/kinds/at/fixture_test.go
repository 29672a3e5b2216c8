package at

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

func TestMain(m *testing.M) { controllertest.Main(m, Messages) }

const (
	getAt        = "get ats default/example"
	updateStatus = "update ats/status default/example"
	deleteAt     = "delete ats default/example"
	getPod       = "get pods default/example-pod"
	createPod    = "create pods default/example-pod"
	patchPod     = "patch pods default/example-pod"
	deletePod    = "delete pods default/example-pod"
)

// fixture reconciles an At on fake clientsets. Its clock stands still at noon.
type fixture struct {
	*kindtest.Fixture[*v1.At]
}

func newFixture(t testing.TB, at *v1.At, others ...runtime.Object) fixture {
	t.Helper()
	declared := func(c kinds.Cluster, r controller.Runtime) (controller.Kind[*v1.At], error) {
		return declare(c, r, Options{})
	}
	f := fixture{kindtest.New(t, declared, at, others...)}
	f.Clock.SetTime(noon)
	for _, client := range []controllertest.Fake{f.Kube, f.Windlass} {
		client.PrependReactor("delete", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			p := action.(clienttesting.DeleteAction).GetDeleteOptions().Preconditions
			if p == nil || p.UID == nil || p.ResourceVersion == nil {
				t.Errorf("a deletion of %s lacks a UID or a resource version as its precondition", action.GetResource().Resource)
			}
			return false, nil, nil
		})
	}
	return f
}

// newFixtureAtNoon returns a fixture whose At, with the given changes, was reconciled an hour before noon.
// It is now noon, so the At is due.
func newFixtureAtNoon(t testing.TB, changes ...func(*v1.At)) fixture {
	t.Helper()
	f := newFixture(t, example(changes...))
	f.Clock.SetTime(noon.Add(-time.Hour))
	controllertest.Equal(t, "RequeueAfter before the scheduled time", clockCheck, f.settle())
	f.Clock.SetTime(noon)
	return f
}

// settle reconciles until a reconcile writes nothing, and returns the RequeueAfter of that reconcile.
func (f fixture) settle() time.Duration {
	f.T.Helper()
	for {
		r := f.Reconcile()
		if r.Err != nil {
			f.T.Fatal(r.Err)
		}
		if len(r.Writes) == 0 {
			return r.Result.RequeueAfter
		}
	}
}

// onlyPod returns the only stored Pod, and fails the test if there are more or none.
func (f fixture) onlyPod() *corev1.Pod {
	f.T.Helper()
	list, err := f.Kube.CoreV1().Pods(metav1.NamespaceAll).List(f.T.Context(), metav1.ListOptions{})
	if err != nil {
		f.T.Fatal(err)
	}
	if len(list.Items) != 1 {
		f.T.Fatalf("wanted one Pod, got %v", list.Items)
	}
	return &list.Items[0]
}

func (f fixture) changePod(change func(*corev1.Pod)) {
	f.T.Helper()
	kindtest.Change(f.Cluster, "default", "example-pod", change)
}

// exit sets the status that the Pod has when its command exits now with the given code.
func (f fixture) exit(code int32) {
	f.T.Helper()
	f.changePod(exitedAt(code, f.Clock.Now()))
}

// reconcileCase is one reconcile: the state before it, and its effects.
type reconcileCase struct {
	// now is the time of the reconcile, since noon.
	now time.Duration
	at  *v1.At
	// pod is the stored Pod with the name of the At's Pod. Nil means none.
	pod *corev1.Pod
	// startedHere means that this process has stored the phase Running.
	startedHere bool
	// unobserved changes the cluster after the caches have observed it. Nil means no change.
	unobserved func(fixture)
	// fail maps a verb and a resource to the error of the next request with this verb and resource.
	fail map[string]error

	result controller.Result
	// err is a part of the error. Empty means none.
	err    string
	reads  []string
	writes []string
	events []string
	// deleted means that the reconcile deletes the At.
	deleted bool
	// status is the status without conditions. Nil means unchanged. conditions are the conditions. If both are
	// nil, the whole At must be unchanged.
	status     *v1.AtStatus
	conditions []string
	// next has the writes of the next reconcile, with caches that hold all stored objects. If nil, the next reconcile
	// releases the Pod of an At that has become Done, and otherwise writes nothing.
	next []string
}

func runCases(t *testing.T, cases map[string]reconcileCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, c.run)
	}
}

func (c reconcileCase) run(t *testing.T) {
	var others []runtime.Object
	if c.pod != nil {
		others = append(others, c.pod)
	}
	f := newFixture(t, c.at, others...)
	f.Clock.SetTime(noon.Add(c.now))
	f.Observe()
	if c.unobserved != nil {
		c.unobserved(f)
	}
	for request, err := range c.fail {
		verb, resource, _ := strings.Cut(request, " ")
		f.Journal.FailNext(verb, resource, err)
	}
	if c.startedHere {
		f.Pipeline.Reconciler.(*reconciler).starts.Set(c.at.UID, *c.at.Status.StartTime, time.Hour)
	}
	before := f.Object()

	r := f.ReconcileAsCached()
	controllertest.Equal(t, "result", c.result, r.Result)
	controllertest.ErrorContains(t, c.err, r.Err)
	controllertest.Equal(t, "reads", c.reads, r.Reads)
	controllertest.Equal(t, "writes", c.writes, r.Writes)
	controllertest.Equal(t, "events", c.events, r.Events)
	c.checkAt(t, before, f.Object())
	if after := f.Object(); c.next == nil && c.pod != nil && after != nil && after.Status.Phase == v1.AtDone &&
		before.Status.Phase != v1.AtDone {
		c.next = []string{patchPod}
	}
	controllertest.Equal(t, "writes of the next reconcile", c.next, f.Reconcile().Writes)
}

// checkAt compares the At after the reconcile with the expected At. before is the At before the reconcile.
func (c reconcileCase) checkAt(t *testing.T, before, after *v1.At) {
	t.Helper()
	switch {
	case c.deleted:
		controllertest.Equal(t, "deleted At", nil, after)
		return
	case c.status == nil && c.conditions == nil:
		controllertest.Equal(t, "unchanged At", before, after)
		return
	case after == nil:
		t.Error("the At was deleted")
		return
	}
	want := before.Status
	if c.status != nil {
		want = *c.status
	}
	controllertest.Equal(t, "conditions", c.conditions, controllertest.Conditions(after))
	want.Conditions = nil
	controllertest.Equal(t, "status", &want, withoutConditions(after))
}

// withoutConditions returns the status of an At without its conditions.
func withoutConditions(at *v1.At) *v1.AtStatus {
	status := at.Status
	status.Conditions = nil
	return &status
}
