package process

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/sharding/shards"
)

var errLate = apierrors.NewTimeoutError("the request took too long", 1)

// TestReplicaWorksOnNoShardThatItMayLose lets the API server carry out a write late: the replica has tried to release a
// shard, got a timeout, and works on the shard again.
func TestReplicaWorksOnNoShardThatItMayLose(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		var mu sync.Mutex
		var late *coordinationv1.Lease
		a := l.start("a", 4, func(m *member, _ *Options) {
			updates(m, func(lease *coordinationv1.Lease) error {
				mu.Lock()
				defer mu.Unlock()
				if holderOf(lease) != "" || lease.Name == leaseName || late != nil {
					return nil
				}
				late = lease.DeepCopy()
				return errLate
			})
		})
		l.settles("with one replica", map[string]int{"a": 40})
		b := l.start("b", 4)
		l.eventually("the first replica to release a shard", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return late != nil
		})
		l.settles("after it could not release the shard", map[string]int{"a": 40})
		_, err := l.client.CoordinationV1().Leases("windlass-system").Update(t.Context(), late, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			t.Errorf("the error of the late write is %v, and a conflict was expected", err)
		}
		a.ends()
		b.ends()
	})
}

// TestReplicaTakesBackWhatItCannotRelease lets a replica release a shard that no other replica can acquire.
func TestReplicaTakesBackWhatItCannotRelease(t *testing.T) {
	for name, answer := range map[string]func(l *ledger, lease *coordinationv1.Lease) error{
		"the API server rejects that": func(_ *ledger, lease *coordinationv1.Lease) error { return rejectShard(lease) },
		"the API server stores that, and the response is lost": func(l *ledger, lease *coordinationv1.Lease) error {
			_, err := l.client.CoordinationV1().Leases("windlass-system").Update(context.Background(), lease,
				metav1.UpdateOptions{})
			return errors.Join(err, errLate)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLedger(t, func(t *testing.T, l *ledger) {
				var releases atomic.Int32
				a := l.start("a", 4, func(m *member, _ *Options) {
					updates(m, func(lease *coordinationv1.Lease) error {
						if !isShard(lease) || holderOf(lease) != "" {
							return nil
						}
						releases.Add(1)
						return answer(l, lease)
					})
				})
				l.settles("with one replica", map[string]int{"a": 40})
				b := l.start("b", 4, func(m *member, _ *Options) { updates(m, rejectShard) })
				l.eventually("the first replica to release a shard", func() bool { return releases.Load() > 0 })
				l.passes(offerPatience + 2*stepInterval)
				l.settles("after that", map[string]int{"a": 40})
				controllertest.Equal(t, "attempts to release a shard", 1, int(releases.Load()))
				a.stop()
				b.stop()
			})
		})
	}
}

// TestFailedWithdrawalIsRepeated lets another installation end right after a replica has failed to withdraw its
// confirmation.
func TestFailedWithdrawalIsRepeated(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		var failing atomic.Value // the name of the replica
		var failed atomic.Bool
		withdrawal := func(m *member, _ *Options) {
			updates(m, func(lease *coordinationv1.Lease) error {
				if confirmed, has := lease.Annotations[shards.ConfirmedAnnotation]; has && confirmed == "" &&
					failing.Load() == m.name {
					failed.Store(true)
					return errLate
				}
				return nil
			})
		}
		a, b := l.start("a", 4, withdrawal), l.start("b", 4, withdrawal)
		l.settles("at first", map[string]int{"a": 20, "b": 20})
		if holderOf(lease(t, l.client)) == "b" {
			a, b = b, a
		}
		hold := func(holder string) {
			t.Helper()
			l.change(metav1.NamespaceSystem, leaseName, func(lease *coordinationv1.Lease) {
				lease.Spec.HolderIdentity = ptr.To(holder)
			})
		}
		failing.Store(b.name)
		hold("another/c")
		a.fails()
		l.eventually("the other replica to fail to withdraw its confirmation", failed.Load)
		hold("")
		failing.Store("")
		l.settles("after the other installation has ended", map[string]int{b.name: 40})
		b.ends()
	})
}

// TestReplicaThatWaitsToleratesAnError lets a replica wait because the ConfigMap of the layout belongs to somebody
// else. One further read of the ConfigMap fails. That must not end the replica, because all replicas wait and it blocks
// none of them.
func TestReplicaThatWaitsToleratesAnError(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		configMaps, name := l.client.CoreV1().ConfigMaps("windlass-system"), leaseName+"-shards"
		_, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var fails atomic.Bool
		m := l.start("a", 4, func(m *member, _ *Options) {
			m.client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				return fails.CompareAndSwap(true, false), nil, errLate
			})
		})
		l.passes(time.Minute)
		fails.Store(true)
		l.eventually("the error", func() bool { return !fails.Load() })
		controllertest.ErrorContains(t, "", configMaps.Delete(t.Context(), name, metav1.DeleteOptions{}))
		l.settles("in the end", map[string]int{"a": 40})
		m.ends()
	})
}

// TestLeaseWithoutLabelIsNotAdopted removes the label of the Lease of a shard.
func TestLeaseWithoutLabelIsNotAdopted(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		a := l.start("a", 4)
		l.settles("at first", map[string]int{"a": 40})
		name := shards.LeaseName(leaseName, 1)
		l.change("windlass-system", name, func(lease *coordinationv1.Lease) { lease.Labels = nil })
		a.fails()
		b := l.start("b", 4)
		l.passes(time.Minute)
		text := ""
		log := funcr.New(func(_, args string) { text += args }, funcr.Options{})
		c := newCoordination(leasesOf(b, "windlass-system"))
		if c.acquire(klog.NewContext(t.Context(), log), 1, nil) != nil {
			t.Error("the Lease was acquired")
		}
		controllertest.ErrorContains(t, "set the label windlass.dev/replicas-of="+leaseName, errors.New(text))
		l.change("windlass-system", name, func(lease *coordinationv1.Lease) {
			lease.Labels = map[string]string{shards.OperatorLabel: leaseName}
		})
		l.settles("in the end", map[string]int{"b": 40})
		b.ends()
	})
}
