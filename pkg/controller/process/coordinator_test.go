package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/controller/shards"
)

// ledger records which replica works on which namespace.
type ledger struct {
	t          *testing.T
	client     *fake.Clientset
	namespaces []string

	mu    sync.Mutex
	owner map[string]string // by namespace
}

func newLedger(t *testing.T, namespaces int) *ledger {
	t.Helper()
	l := &ledger{t: t, client: fake.NewClientset(), owner: map[string]string{}}
	for i := range namespaces {
		l.namespaces = append(l.namespaces, fmt.Sprintf("tenant-%03d", i))
	}
	return l
}

// worker is the cache of an instance. It works on its namespaces while the cache runs.
type worker struct {
	*ledger
	replica  string
	selector sharding.Selector
}

// Start implements Caches.
func (w worker) Start(stop <-chan struct{}) {
	w.mark("", w.replica)
	go func() {
		<-stop
		w.mark(w.replica, "")
	}()
}

// mark changes the owner of the namespaces from one replica to another. "" is nobody.
func (w worker) mark(from, to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, namespace := range w.namespaces {
		matches, err := w.selector.Matches(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}})
		if err != nil || !matches {
			continue
		}
		if w.owner[namespace] != from {
			w.t.Errorf("%s begins to work on namespace %s, which has the owner %q", w.replica, namespace, w.owner[namespace])
		}
		w.owner[namespace] = to
	}
}

// owners returns the number of namespaces of each replica, and of "", which stands for nobody.
func (l *ledger) owners() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := map[string]int{}
	for _, namespace := range l.namespaces {
		count[l.owner[namespace]]++
	}
	return count
}

// member is a process of a sharded operator.
type member struct {
	stop  context.CancelFunc
	ended chan error
}

func (l *ledger) start(identity string, count int) *member {
	l.t.Helper()
	ctx, stop := context.WithCancel(l.t.Context())
	m := &member{stop: stop, ended: make(chan error, 1)}
	go func() {
		m.ended <- Run(ctx, Options{
			Workers: 1, Events: controller.NewEvents(l.client.EventsV1(), nil, "windlass.dev/controller", identity, clock.RealClock{}),
			Sharding: &Sharding{
				Shards: count, Lease: Lease{l.client, "windlass-system", leaseName, identity},
				New: func(_ context.Context, selector sharding.Selector) (Instance, error) {
					return Instance{Caches: []Caches{worker{l, identity, selector}}}, nil
				},
				Weigh: func(context.Context) (map[string]int, error) {
					weights := map[string]int{}
					for _, namespace := range l.namespaces {
						weights[namespace] = 100
					}
					return weights, nil
				},
				adjust: func(e *election) { e.duration, e.deadline, e.period = 3*time.Hour, 2*time.Hour, time.Hour },
			},
		})
	}()
	l.t.Cleanup(func() { stop() })
	return m
}

// end stops the process, and checks that it ends without an error.
func (m *member) end(t *testing.T) {
	t.Helper()
	m.stop()
	controllertest.ErrorContains(t, "", <-m.ended)
}

// settles waits until each replica works on its share of the namespaces.
func (l *ledger) settles(when string, shares map[string]int) {
	l.t.Helper()
	eventually(l.t, fmt.Sprintf("the owners to be %v %s", shares, when), func() bool {
		return maps.Equal(l.owners(), shares)
	})
}

func TestReplicasShareNamespaces(t *testing.T) {
	l := newLedger(t, 40)
	a := l.start("a", 4)
	l.settles("with one replica", map[string]int{"a": 40})
	b := l.start("b", 4)
	l.settles("with two replicas", map[string]int{"a": 20, "b": 20})
	a.end(t)
	l.settles("after the first replica has stopped", map[string]int{"b": 40})
	b.end(t)
	l.settles("after all replicas have stopped", map[string]int{"": 40})
	leases, err := l.client.CoordinationV1().Leases("windlass-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "Leases of shards and replicas that are left", 4, len(leases.Items))
}

func TestNumberOfShardsChangesDuringRollout(t *testing.T) {
	for _, c := range []struct{ from, to int }{{2, 8}, {8, 2}} {
		t.Run(fmt.Sprintf("from %d to %d", c.from, c.to), func(t *testing.T) {
			l := newLedger(t, 40)
			former := l.start("a", c.from)
			l.settles("before the rollout", map[string]int{"a": 40})
			next := l.start("b", c.to)
			l.settles("while both run", map[string]int{"a": 20, "b": 20})
			former.end(t)
			eventually(t, "a layout with the new number of shards", func() bool {
				layout, err := l.client.CoreV1().ConfigMaps("windlass-system").Get(t.Context(), leaseName+"-shards", metav1.GetOptions{})
				return err == nil && len(strings.Fields(layout.Data["cuts"])) == c.to-1
			})
			l.settles("after the rollout", map[string]int{"b": 40})
			next.end(t)
		})
	}
}

func TestLostLayoutIsWrittenAgain(t *testing.T) {
	l := newLedger(t, 40)
	m := l.start("a", 4)
	l.settles("at first", map[string]int{"a": 40})
	configMaps := l.client.CoreV1().ConfigMaps("windlass-system")
	for _, c := range []struct {
		name  string
		spoil func(*corev1.ConfigMap) error
	}{
		{"deleted", func(live *corev1.ConfigMap) error {
			return configMaps.Delete(t.Context(), live.Name, metav1.DeleteOptions{})
		}},
		{"made unreadable", func(live *corev1.ConfigMap) error {
			live.Data["cuts"] = "none"
			_, err := configMaps.Update(t.Context(), live, metav1.UpdateOptions{})
			return err
		}},
		{"given the largest version and other cuts", func(live *corev1.ConfigMap) error {
			live.Data["version"], live.Data["cuts"] = fmt.Sprint(shards.MaxVersion), "0x5"
			_, err := configMaps.Update(t.Context(), live, metav1.UpdateOptions{})
			return err
		}},
		{"returned to the first version", func(live *corev1.ConfigMap) error {
			live.Data["version"] = "1"
			_, err := configMaps.Update(t.Context(), live, metav1.UpdateOptions{})
			return err
		}},
	} {
		live, err := configMaps.Get(t.Context(), leaseName+"-shards", metav1.GetOptions{})
		if err = errors.Join(err, c.spoil(live)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the replica to confirm a new layout after it was "+c.name, func() bool {
			live, err := configMaps.Get(t.Context(), leaseName+"-shards", metav1.GetOptions{})
			lease, failed := l.client.CoordinationV1().Leases("windlass-system").Get(t.Context(), shards.ReplicaLeaseName(leaseName, "a"), metav1.GetOptions{})
			return errors.Join(err, failed) == nil && live.Data["version"] != "1" && len(strings.Fields(live.Data["cuts"])) == 3 && strings.HasPrefix(lease.Annotations[shards.ConfirmedAnnotation], live.Data["version"]+"-")
		})
		l.settles("after the layout was "+c.name, map[string]int{"a": 40})
	}
	m.end(t)
}

// TestReplicaEndsWhenAnotherHoldsItsShard gives the Lease of a shard to another replica, as after a long freeze. The election
// would notice it only when it renews the Lease.
func TestReplicaEndsWhenAnotherHoldsItsShard(t *testing.T) {
	l := newLedger(t, 40)
	m := l.start("a", 4)
	l.settles("at first", map[string]int{"a": 40})
	leases := l.client.CoordinationV1().Leases("windlass-system")
	lease, err := leases.Get(t.Context(), shards.LeaseName(leaseName, 1), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lease.Spec.HolderIdentity = ptr.To("b")
	if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	controllertest.ErrorContains(t, "shard 1: "+errLeaseLost.Error(), <-m.ended)
}
