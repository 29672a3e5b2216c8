package process

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/sharding/shards"
)

func TestReplicasShareNamespaces(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		a := l.start("a", 4)
		l.settles("with one replica", map[string]int{"a": 40})
		b := l.start("b", 4)
		l.settles("with two replicas", map[string]int{"a": 20, "b": 20})
		a.ends()
		l.settles("after the first replica has stopped", map[string]int{"b": 40})
		b.ends()
		l.settles("after all replicas have stopped", map[string]int{"": 40})
		leases, err := l.client.CoordinationV1().Leases("windlass-system").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		controllertest.Equal(t, "Leases of the leader and of shards that are left", 5, len(leases.Items))
		for _, lease := range leases.Items {
			controllertest.Equal(t, "holder of "+lease.Name, "", holderOf(&lease))
		}
	})
}

func TestNumberOfShardsChangesDuringRollout(t *testing.T) {
	for _, c := range []struct {
		from, to int
		meantime map[string]int // the number of namespaces of each owner while both replicas run
	}{
		{2, 8, map[string]int{"a": 20, "b": 20}}, {8, 2, map[string]int{"a": 20, "b": 20}}, {
			1, 8, map[string]int{"a": 40},
		}, {8, 1, map[string]int{"a": 40}},
	} {
		t.Run(fmt.Sprintf("from %d to %d", c.from, c.to), func(t *testing.T) {
			inLedger(t, func(_ *testing.T, l *ledger) {
				previous := l.start("a", c.from)
				l.settles("before the rollout", map[string]int{"a": 40})
				next := l.start("b", c.to)
				l.settles("while both run", c.meantime)
				previous.ends()
				l.settles("after the rollout", map[string]int{"b": 40})
				l.eventually("a layout with the new number of shards", func() bool { return c.to == 1 || l.cuts() == c.to-1 })
				l.settles("with the new layout", map[string]int{"b": 40})
				next.ends()
			})
		})
	}
}

// cuts returns the number of cuts in the stored layout.
func (l *ledger) cuts() int {
	layout, err := l.client.CoreV1().ConfigMaps("windlass-system").Get(l.t.Context(), leaseName+"-shards",
		metav1.GetOptions{})
	if err != nil {
		return 0
	}
	return len(strings.Fields(layout.Data["cuts"]))
}

// TestOperatorWithoutShardsWaitsForThoseWithShards lets a process without shards lead while other processes work on
// shards.
func TestOperatorWithoutShardsWaitsForThoseWithShards(t *testing.T) {
	inLedger(t, func(_ *testing.T, l *ledger) {
		a, b := l.start("a", 4), l.start("b", 4)
		l.settles("at first", map[string]int{"a": 20, "b": 20})
		c := l.start("c", 1)
		leader, other := a, b
		if holderOf(lease(t, l.client)) == "b" {
			leader, other = b, a
		}
		other.cut.Store(true) // so that it cannot lead
		leader.ends()
		l.settles("when the process without shards leads", map[string]int{"c": 40})
		other.fails()
		c.ends()
	})
}

func TestLostLayoutIsWrittenAgain(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		m := l.start("a", 4)
		l.settles("at first", map[string]int{"a": 40})
		configMaps := l.client.CoreV1().ConfigMaps("windlass-system")
		for _, c := range []struct {
			name  string
			again bool // the same layout is written, and the work goes on
			spoil func(*corev1.ConfigMap)
		}{
			{"deleted", true, func(live *corev1.ConfigMap) {
				controllertest.ErrorContains(t, "", configMaps.Delete(t.Context(), live.Name, metav1.DeleteOptions{}))
			}},
			{"made unreadable", true, func(live *corev1.ConfigMap) {
				live.Data["cuts"] = "none"
				l.store(live)
			}},
			{"given the largest version and other cuts", false, func(live *corev1.ConfigMap) {
				live.Data["version"], live.Data["cuts"] = fmt.Sprint(shards.MaxVersion), "0x5"
				l.store(live)
			}},
			{"returned to the first version", false, func(live *corev1.ConfigMap) {
				live.Data["version"] = "1"
				l.store(live)
			}},
		} {
			worker := l.owner["tenant-000"]
			c.spoil(l.layout())
			l.eventually("the replica to confirm a new layout after it was "+c.name, func() bool {
				live, err := configMaps.Get(t.Context(), leaseName+"-shards", metav1.GetOptions{})
				lease, failed := l.client.CoordinationV1().Leases("windlass-system").Get(t.Context(),
					shards.ReplicaLeaseName(leaseName, "a"), metav1.GetOptions{})
				return errors.Join(err, failed) == nil && (c.again || live.Data["version"] != "1") &&
					len(strings.Fields(live.Data["cuts"])) == 3 &&
					strings.HasPrefix(lease.Annotations[shards.ConfirmedAnnotation], live.Data["version"]+"-")
			})
			l.settles("after the layout was "+c.name, map[string]int{"a": 40})
			controllertest.Equal(t, "whether the work goes on after the layout was "+c.name, c.again,
				worker == l.owner["tenant-000"])
		}
		m.ends()
	})
}

// TestNumbersOfObjectsFollow changes the numbers of objects in the stored layout. The leader corrects the numbers
// without a new layout, so that no work stops.
func TestNumbersOfObjectsFollow(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		m := l.start("a", 4)
		l.settles("at first", map[string]int{"a": 40})
		want, changed, worker := l.layout(), l.layout(), l.owner["tenant-000"]
		changed.Data["objects"] = "1\n2147483647\n-1\n"
		l.store(changed)
		l.passes(weighInterval + time.Minute)
		controllertest.Equal(t, "data", want.Data, l.layout().Data)
		controllertest.Equal(t, "whether the work goes on", true, worker == l.owner["tenant-000"])
		m.ends()
	})
}

func TestConfigMapOfSomebodyElseIsNotOverwritten(t *testing.T) {
	for name, test := range map[string]struct {
		shards int
		shares map[string]int
	}{
		"an operator with shards waits":         {4, map[string]int{"": 40}},
		"an operator without shards ignores it": {1, map[string]int{"a": 40}},
	} {
		t.Run(name, func(t *testing.T) {
			inLedger(t, func(t *testing.T, l *ledger) {
				configMaps, theirs := l.client.CoreV1().ConfigMaps("windlass-system"), map[string]string{"version": "7"}
				if _, err := configMaps.Create(t.Context(), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: leaseName + "-shards"}, Data: theirs,
				}, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				m := l.start("a", test.shards)
				l.passes(10 * time.Minute)
				l.settles("beside the ConfigMap", test.shares)
				controllertest.Equal(t, "data", theirs, l.layout().Data)
				m.ends()
			})
		})
	}
}

// TestOperatorWithoutShardsWaitsAlthoughTheLayoutIsLost removes the label of the layout while a replica works on
// shards. After that, only the Leases show that the replica works.
func TestOperatorWithoutShardsWaitsAlthoughTheLayoutIsLost(t *testing.T) {
	inLedger(t, func(_ *testing.T, l *ledger) {
		a := l.start("a", 4)
		l.settles("at first", map[string]int{"a": 40})
		b := l.start("b", 1)
		layout := l.layout()
		layout.Labels = nil
		l.store(layout)
		a.cut.Store(true) // so that it releases nothing
		l.settles("when the Leases of the previous replica have expired", map[string]int{"b": 40})
		a.fails()
		b.ends()
	})
}

func TestReplicaWithoutAPIServerEndsBeforeOthersTakeItsShards(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		a, b := l.start("a", 4), l.start("b", 4)
		l.settles("at first", map[string]int{"a": 20, "b": 20})
		a.cut.Store(true)
		l.settles("when a replica does not reach the API server", map[string]int{"b": 40})
		a.fails()
		l.eventually("the leader to delete the Lease of the replica that is gone", func() bool {
			_, err := l.client.CoordinationV1().Leases("windlass-system").Get(t.Context(),
				shards.ReplicaLeaseName(leaseName, "a"), metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
		b.ends()
	})
}

// TestReplicaThatMayNotReadTheLayoutEnds checks that a replica ends if it has a share of the shards and may not read
// the layout. Another replica then works on all shards.
func TestReplicaThatMayNotReadTheLayoutEnds(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		a := l.start("a", 4)
		l.settles("at first", map[string]int{"a": 40})
		b := l.start("b", 4, func(m *member, _ *Options) {
			m.client.PrependReactor("get", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), leaseName, errors.New("no"))
			})
		})
		controllertest.ErrorContains(t, "reading the layout of the shards", <-b.ended)
		l.settles("in the end", map[string]int{"a": 40})
		a.ends()
	})
}

// TestReplicaLosesItsShardsWithItsLease lets another client take or delete Leases of a replica.
func TestReplicaLosesItsShardsWithItsLease(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, l *ledger){
		"another replica owns its shard, as after a long freeze": func(_ *testing.T, l *ledger) {
			l.change("windlass-system", shards.LeaseName(leaseName, 1), func(lease *coordinationv1.Lease) {
				lease.Spec.HolderIdentity = ptr.To("other")
			})
		},
		"the Lease of its shard is deleted": func(t *testing.T, l *ledger) {
			controllertest.ErrorContains(t, "", l.client.CoordinationV1().Leases("windlass-system").Delete(t.Context(),
				shards.LeaseName(leaseName, 1), metav1.DeleteOptions{}))
		},
		"its own Lease is deleted": func(t *testing.T, l *ledger) {
			controllertest.ErrorContains(t, "", l.client.CoordinationV1().Leases("windlass-system").Delete(t.Context(),
				shards.ReplicaLeaseName(leaseName, "a"), metav1.DeleteOptions{}))
		},
		"another process leads": func(_ *testing.T, l *ledger) {
			l.change("windlass-system", leaseName, func(lease *coordinationv1.Lease) {
				lease.Spec.HolderIdentity = ptr.To("other")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLedger(t, func(t *testing.T, l *ledger) {
				a := l.start("a", 4)
				l.settles("at first", map[string]int{"a": 40})
				lose(t, l)
				controllertest.ErrorContains(t, errLeaseLost.Error(), <-a.ended)
			})
		})
	}
}

// TestReplicasPauseWhileAnOperatorThatKnowsNoShardsLeads simulates a leader without shards, which holds no Lease of a
// replica and works on all namespaces.
func TestReplicasPauseWhileAnOperatorThatKnowsNoShardsLeads(t *testing.T) {
	inLedger(t, func(_ *testing.T, l *ledger) {
		follower := l.start("a", 4)
		l.settles("at first", map[string]int{"a": 40})
		follower.ends()
		l.change("windlass-system", leaseName, func(lease *coordinationv1.Lease) {
			lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To("other"), ptr.To[int32](3600)
		})
		next := l.start("b", 4)
		l.passes(10 * time.Second)
		l.settles("while the other leads", map[string]int{"": 40})
		l.change("windlass-system", leaseName, func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = ptr.To("") })
		l.settles("when the other has stopped", map[string]int{"b": 40})
		next.ends()
	})
}

func TestReplicaThatCannotStartGivesUpItsShards(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		a := l.start("a", 4, func(m *member, _ *Options) { m.newFails = errors.New("no memory") })
		controllertest.ErrorContains(t, "starting the operator for shard", <-a.ended)
		b := l.start("b", 4)
		l.settles("after a replica that cannot start has ended", map[string]int{"b": 40})
		b.ends()
	})
}

// TestReplicaThatTakesNoShardsCostsLittle runs a replica that cannot acquire the Leases of shards. The other replica
// acquires each shard again that it has released, and must not send many writes.
func TestReplicaThatTakesNoShardsCostsLittle(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		a := l.start("a", 4)
		l.settles("at first", map[string]int{"a": 40})
		b := l.start("b", 4, func(m *member, _ *Options) { updates(m, rejectShard) })
		l.client.ClearActions()
		l.passes(10 * time.Minute)
		writes := 0
		for _, action := range l.client.Actions() {
			update, ok := action.(clienttesting.UpdateAction)
			if ok && strings.Contains(update.GetObject().(metav1.Object).GetName(), "-shard-") {
				writes++
			}
		}
		if writes == 0 || writes > 6 {
			t.Errorf("%d writes to the Leases of shards in ten minutes", writes)
		}
		l.settles("in the end", map[string]int{"a": 40})
		b.ends()
		a.ends()
	})
}

// TestOtherInstallationWaitsForAllReplicas runs two installations. Only one replica of the first holds the Lease of the
// cluster.
func TestOtherInstallationWaitsForAllReplicas(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		of := func(namespace string) func(*member, *Options) {
			return func(m *member, o *Options) {
				o.Leases = leasesOf(m, namespace)
			}
		}
		a, b := l.start("a", 4, of("one")), l.start("b", 4, of("one"))
		l.settles("at first", map[string]int{"a": 20, "b": 20})
		other := l.start("c", 4, of("two"))
		l.passes(time.Minute)
		l.settles("with another installation", map[string]int{"a": 20, "b": 20})
		if holderOf(leaseIn(t, l.client, "one")) == "b" {
			a, b = b, a
		}
		a.ends()
		l.settles("when the leader of the first has stopped", map[string]int{b.name: 40})
		b.cut.Store(true)
		l.settles("when the other replica does not reach the API server", map[string]int{"c": 40})
		b.fails()
		other.ends()
	})
}
