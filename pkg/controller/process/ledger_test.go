package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// ledger records which replica works on which namespace, and fails the test if a namespace has two owners. It runs in a
// bubble of synctest, whose clock advances without waiting.
type ledger struct {
	t          *testing.T
	client     *fake.Clientset // of the API server that all replicas share
	namespaces []string

	mu    sync.Mutex
	owner map[string]*worker // by namespace
}

// inLedger runs a test with a ledger of 40 namespaces.
func inLedger(t *testing.T, test func(t *testing.T, l *ledger)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{t: t, client: fake.NewClientset(), owner: map[string]*worker{}}
		controllertest.NewServer(time.Now, l.client)
		for i := range 40 {
			l.namespaces = append(l.namespaces, fmt.Sprintf("tenant-%03d", i))
		}
		test(t, l)
	})
}

// begin records that a worker begins to work on its namespaces.
func (l *ledger) begin(w *worker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range l.namespaces {
		matches, err := w.namespaces.Matches(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: name}})
		if err != nil {
			l.t.Error(err)
		}
		if !matches {
			continue
		}
		if other := l.owner[name]; other.works() && other.fence.open() {
			l.t.Errorf("%s begins to work on namespace %s, which has the owner %s", w.name, name, other.name)
		}
		l.owner[name] = w
	}
}

// worker works on namespaces until stop is closed. It implements Caches.
type worker struct {
	*member
	namespaces sharding.Selector
	stop       <-chan struct{}
}

// Start implements Caches.
func (w *worker) Start(stop <-chan struct{}) {
	w.stop = stop
	w.begin(w)
}

func (w *worker) works() bool {
	if w == nil {
		return false
	}
	select {
	case <-w.stop:
		return false
	default:
		return true
	}
}

// settles waits until each replica works on the number of namespaces in shares. The name "" stands for namespaces
// without an owner.
func (l *ledger) settles(when string, shares map[string]int) {
	l.t.Helper()
	l.eventually(fmt.Sprintf("the owners to be %v %s", shares, when), func() bool {
		return maps.Equal(l.shares(), shares)
	})
}

// shares returns the number of namespaces of each owner.
func (l *ledger) shares() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	shares := map[string]int{}
	for _, name := range l.namespaces {
		if w := l.owner[name]; w.works() {
			shares[w.name]++
		} else {
			shares[""]++
		}
	}
	return shares
}

// settlesWithin waits until each replica works on its share of the namespaces, and fails the test if that takes too
// long by the clock of the bubble.
func (l *ledger) settlesWithin(limit time.Duration, when string, shares map[string]int) {
	l.t.Helper()
	began := time.Now()
	l.settles(when, shares)
	if took := time.Since(began); took > limit {
		l.t.Errorf("it took %v until the owners were %v %s", took, shares, when)
	}
}

// eventually waits until a condition holds, for up to 10 minutes of the bubble.
func (l *ledger) eventually(what string, holds func() bool) {
	l.t.Helper()
	for range 6000 {
		if synctest.Wait(); holds() {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	l.t.Fatalf("waiting for %s", what)
}

// passes lets time pass.
func (l *ledger) passes(duration time.Duration) {
	<-time.After(duration)
	synctest.Wait()
}

// member is a process of the operator.
type member struct {
	*ledger
	name   string
	client *fake.Clientset
	fence  *Fence
	stop   context.CancelFunc
	ended  chan error
	// newFails is the error that Sharding.New returns.
	newFails error
	cut      atomic.Bool // makes all requests fail
}

// start starts a process with a number of shards.
func (l *ledger) start(name string, count int, adjust ...func(*member, *Options)) *member {
	l.t.Helper()
	ctx, stop := context.WithCancel(klog.NewContext(l.t.Context(), klog.Background().WithValues("replica", name)))
	m := &member{ledger: l, name: name, client: &fake.Clientset{}, fence: &Fence{}, stop: stop, ended: make(chan error, 1)}
	m.client.AddReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if m.cut.Load() {
			return true, nil, errors.New("no route to the API server")
		}
		object, err := l.client.Invokes(a, nil)
		return true, object, err
	})
	m.client.AddWatchReactor("*", l.client.WatchReactionChain[0].React)
	o := Options{
		Workers: 1, Fence: m.fence, Leases: leasesOf(m, "windlass-system"),
		Sharding: &Sharding{Shards: count, Weigh: l.weigh, New: func(
			_ context.Context, selector sharding.Selector,
		) (Instance, error) {
			return Instance{Caches: []Caches{&worker{member: m, namespaces: selector}}}, m.newFails
		}},
	}
	if count == 1 {
		o.Events = controller.NewEvents(m.client.EventsV1(), nil, "windlass.dev/controller", name, clock.RealClock{})
		o.Controllers = m.controllers(func(context.Context) {
			(&worker{member: m, namespaces: sharding.Everything()}).Start(ctx.Done())
		})
	}
	for _, change := range adjust {
		change(m, &o)
	}
	go func() { m.ended <- Run(ctx, o) }()
	l.t.Cleanup(stop)
	return m
}

// controllers returns a controller that calls reconcile once.
func (m *member) controllers(reconcile func(context.Context)) []*controller.Controller {
	queue := controller.NewQueue("toy", clock.RealClock{})
	m.t.Cleanup(func() { queue.ShutDown() })
	queue.Add(controller.Key{Namespace: "default", Name: "example"}, controller.Urgent)
	return []*controller.Controller{controller.New("toy", queue, func(
		ctx context.Context, _ controller.Key,
	) (controller.Result, error) {
		reconcile(ctx)
		return controller.Result{}, nil
	})}
}

// leasesOf returns the Leases that a process of an installation needs.
func leasesOf(m *member, namespace string) []Lease {
	return []Lease{
		{m.client, namespace, leaseName, m.name}, {m.client, metav1.NamespaceSystem, leaseName, namespace + "/" + m.name},
	}
}

func (l *ledger) weigh(context.Context) (map[string]int, error) {
	weights := map[string]int{}
	for _, namespace := range l.namespaces {
		weights[namespace] = 100
	}
	return weights, nil
}

// ends stops the process, and checks that it ends without an error.
func (m *member) ends() {
	m.t.Helper()
	m.stop()
	controllertest.ErrorContains(m.t, "", <-m.ended)
}

// fails waits until the process has ended with an error.
func (m *member) fails() {
	m.t.Helper()
	if err := <-m.ended; err == nil {
		m.t.Errorf("%s ended without an error", m.name)
	}
}

// change changes a Lease on the API server.
func (l *ledger) change(namespace, name string, change func(*coordinationv1.Lease)) {
	l.t.Helper()
	leases := l.client.CoordinationV1().Leases(namespace)
	lease, err := leases.Get(l.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	change(lease)
	if _, err := leases.Update(l.t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// layout returns the ConfigMap with the layout.
func (l *ledger) layout() *corev1.ConfigMap {
	l.t.Helper()
	layout, err := l.client.CoreV1().ConfigMaps("windlass-system").Get(l.t.Context(), leaseName+"-shards",
		metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return layout
}

// store updates the ConfigMap with the layout.
func (l *ledger) store(layout *corev1.ConfigMap) {
	l.t.Helper()
	_, err := l.client.CoreV1().ConfigMaps("windlass-system").Update(l.t.Context(), layout, metav1.UpdateOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
}

// updates calls answer for each update of a Lease by a member. If answer returns an error, the update fails with this
// error.
func updates(m *member, answer func(*coordinationv1.Lease) error) {
	m.client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		lease, ok := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
		if !ok {
			return false, nil, nil
		}
		err := answer(lease)
		return err != nil, nil, err
	})
}

func isShard(lease *coordinationv1.Lease) bool { return strings.Contains(lease.Name, "-shard-") }

// rejectShard returns the error Forbidden for the Lease of a shard, and nil for other Leases.
func rejectShard(lease *coordinationv1.Lease) error {
	if !isShard(lease) {
		return nil
	}
	return apierrors.NewForbidden(coordinationv1.Resource("leases"), lease.Name, errors.New("no"))
}
