package shards

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

const operator = "windlass-controller"

// leaseOf returns a Lease whose renewTime comes from a clock that is wrong.
func leaseOf(name, holder, version string) coordinationv1.Lease {
	return coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(holder), RenewTime: ptr.To(metav1.NewMicroTime(time.Unix(0, 0))),
		},
	}
}

// replicaLease returns the Lease of a replica that has confirmed a layout.
func replicaLease(replica, confirmed, version string) coordinationv1.Lease {
	lease := leaseOf(ReplicaLeaseName(operator, replica), replica, version)
	lease.Annotations = map[string]string{ConfirmedAnnotation: confirmed}
	return lease
}

// offeredLease returns the Lease of a shard that was released for a replica.
func offeredLease(shard int, to string) coordinationv1.Lease {
	lease := leaseOf(LeaseName(operator, shard), "", "1")
	lease.Annotations = map[string]string{OfferedAnnotation: to}
	return lease
}

func TestViewSaysWhoOwnsWhat(t *testing.T) {
	for name, c := range map[string]struct {
		leases []coordinationv1.Lease
		want   View
	}{
		"no Leases": {nil, View{}},
		"two replicas": {
			[]coordinationv1.Lease{
				leaseOf(operator, "a", "1"), leaseOf(LeaseName(operator, 0), "a", "2"),
				leaseOf(LeaseName(operator, 2), "b", "3"), replicaLease("a", "1-x", "4"), replicaLease("b", "2-y", "5"),
			},
			View{
				Replicas: []string{"a", "b"}, Leader: Lease{Owner: "a", Confirmed: "1-x"},
				Leases: []Lease{{Owner: "a", Confirmed: "1-x"}, {}, {Owner: "b", Confirmed: "2-y"}},
			},
		},
		"owners without Leases of their own have confirmed nothing": {
			[]coordinationv1.Lease{leaseOf(operator, "a", "1"), leaseOf(LeaseName(operator, 0), "b", "2")},
			View{Leader: Lease{Owner: "a"}, Leases: []Lease{{Owner: "b"}}},
		},
		"a Lease that is offered": {
			[]coordinationv1.Lease{offeredLease(1, "b")},
			View{Leases: []Lease{{}, {Offered: "b"}}},
		},
		"released Leases": {
			[]coordinationv1.Lease{leaseOf(operator, "", "1"), leaseOf(LeaseName(operator, 0), "", "1")}, View{},
		},
		"other Leases with the label": {
			[]coordinationv1.Lease{
				leaseOf("other", "a", "1"), leaseOf(operator+"-shard-00", "a", "2"),
				leaseOf(operator+"-shard--1", "a", "3"), leaseOf(operator+"-shard-256", "a", "4"),
				leaseOf(operator+"-shard-9999999999999999999", "a", "5"), leaseOf(ReplicaLeaseName(operator, "a"), "b", "6"), {},
			},
			View{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewObserver(operator, clocktesting.NewFakePassiveClock(time.Now()))
			controllertest.Equal(t, "view", c.want, o.View(c.leases, Layout{}, time.Now()))
		})
	}
}

func TestShardIsFreeWhenItsOwnerIsGone(t *testing.T) {
	for name, leases := range map[string]func(version string) []coordinationv1.Lease{
		"a shard": func(version string) []coordinationv1.Lease {
			return []coordinationv1.Lease{leaseOf(LeaseName(operator, 0), "a", "1"), replicaLease("a", "", version)}
		},
		"the leader": func(version string) []coordinationv1.Lease {
			return []coordinationv1.Lease{leaseOf(operator, "a", version)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Now())
			o := NewObserver(operator, clock)
			owner := func(when, want, version string) {
				t.Helper()
				v := o.View(leases(version), Layout{}, clock.Now())
				controllertest.Equal(t, "owner "+when, want, append(v.Leases, v.Leader)[0].Owner)
			}
			later := func(by time.Duration) { clock.SetTime(clock.Now().Add(by)) }
			owner("when a process first sees a Lease of any age", "a", "1")
			later(15 * time.Second)
			owner("at the end of the duration", "a", "1")
			later(time.Millisecond)
			owner("after the duration", "", "1")
			owner("when it is renewed", "a", "2")
			later(10 * time.Second)
			owner("before the next renewal", "a", "2")
			later(10 * time.Second)
			owner("without another renewal", "", "2")
		})
	}
}

func TestUntilExpiry(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	o := NewObserver(operator, clock)
	look := func(version string, answer time.Duration) {
		asked := clock.Now()
		clock.SetTime(asked.Add(answer))
		o.View([]coordinationv1.Lease{replicaLease("a", "", version), replicaLease("b", "", "1")}, Layout{}, asked)
	}
	look("1", 0)
	controllertest.Equal(t, "of new Leases", LeaseDuration, o.UntilExpiry())
	for _, c := range []struct {
		when          string
		after, answer time.Duration
		version       string
		want          time.Duration
	}{
		{"when one is renewed", 10 * time.Second, 0, "2", 5*time.Second + 1},
		{"when the other has expired during a request", 5 * time.Second, time.Second, "2", 1},
		{"when the other has expired before", 1, 0, "2", 9*time.Second - 1 + 1},
		{"when all have expired", LeaseDuration, 0, "2", LeaseDuration},
	} {
		clock.SetTime(clock.Now().Add(c.after))
		look(c.version, c.answer)
		controllertest.Equal(t, c.when, c.want, o.UntilExpiry())
	}
}

// TestRenewalIsSeenOnce lets a watch be ahead of a list, or behind it. Neither case makes a Lease valid for longer.
func TestRenewalIsSeenOnce(t *testing.T) {
	for name, versions := range map[string]struct{ watched, listed string }{
		"the watch is ahead": {"2", "1"}, "the watch is behind": {"1", "2"}, "both are at the same version": {"2", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Now())
			o := NewObserver(operator, clock)
			look := func(version string) []string {
				return o.View([]coordinationv1.Lease{
					leaseOf(LeaseName(operator, 0), "a", "1"), replicaLease("a", "", version),
				}, Layout{}, clock.Now()).Renewed
			}
			look("1")
			clock.SetTime(clock.Now().Add(2 * time.Second))
			if versions.watched == "2" {
				o.Observe(ptr.To(replicaLease("a", "", versions.watched)))
				look(versions.listed)
			} else {
				look(versions.listed)
				o.Observe(ptr.To(replicaLease("a", "", versions.watched)))
			}
			clock.SetTime(clock.Now().Add(6 * time.Second))
			controllertest.Equal(t, "replicas that were renewed within 5 s", []string(nil), look("2"))
			controllertest.Equal(t, "until the Lease expires", 9*time.Second+1, o.UntilExpiry())
		})
	}
}

func TestRenewalsAreSeenAfterRestoreOfEtcd(t *testing.T) {
	for name, see := range map[string]func(o *Observer, lease coordinationv1.Lease){
		"in a watch": func(o *Observer, lease coordinationv1.Lease) { o.Observe(&lease) },
		"in a list":  func(*Observer, coordinationv1.Lease) {},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Now())
			o := NewObserver(operator, clock)
			for _, version := range []string{"1000", "3", "4"} {
				lease := replicaLease("a", "", version)
				see(o, lease)
				view := o.View([]coordinationv1.Lease{lease}, Layout{}, clock.Now())
				controllertest.Equal(t, "replicas with version "+version, []string{"a"}, view.Replicas)
				controllertest.Equal(t, "until the Lease expires", LeaseDuration, o.UntilExpiry())
				clock.SetTime(clock.Now().Add(10 * time.Second))
			}
		})
	}
}

// TestOwnerWhoseLeaseIsDeletedKeepsItsShards checks that an owner keeps its shards until it can notice that somebody
// has deleted its Lease.
func TestOwnerWhoseLeaseIsDeletedKeepsItsShards(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	o, shard := NewObserver(operator, clock), leaseOf(LeaseName(operator, 0), "a", "1")
	o.View([]coordinationv1.Lease{shard, replicaLease("a", "", "2")}, Layout{}, clock.Now())
	for _, want := range []bool{true, true, false} {
		clock.SetTime(clock.Now().Add(10 * time.Second))
		v := o.View([]coordinationv1.Lease{shard}, Layout{}, clock.Now())
		controllertest.Equal(t, "whether the owner has the shard", want, v.Owns("a", 0))
	}
}

// TestShardWhoseLeaseIsDeletedIsNotFreeAtOnce checks that the owner of a shard has time to notice that somebody has
// deleted the Lease of the shard.
func TestShardWhoseLeaseIsDeletedIsNotFreeAtOnce(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	o, layout := NewObserver(operator, clock), Layout{Version: 1, Cuts: Balance(nil, 2)}
	leases := []coordinationv1.Lease{
		replicaLease("a", "", "1"), leaseOf(LeaseName(operator, 0), "a", "2"), leaseOf(LeaseName(operator, 1), "", "3"),
	}
	o.View(leases, layout, clock.Now())
	for _, c := range []struct {
		after time.Duration
		free  []int
	}{{0, []int{1}}, {LeaseDuration, []int{1}}, {time.Millisecond, []int{0, 1}}} {
		clock.SetTime(clock.Now().Add(c.after))
		leases[0].ResourceVersion += "0"
		controllertest.Equal(t, "free shards", c.free, o.View(leases[:1], layout, clock.Now()).Free())
	}
}

// TestLeaderThatIsGoneIsNoOperatorWithoutShards covers a killed leader, whose own Lease expires before the Lease of the
// leader. The other replicas must not stand by as they do for a leader without shards.
func TestLeaderThatIsGoneIsNoOperatorWithoutShards(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	o := NewObserver(operator, clock)
	leader := func(leases ...coordinationv1.Lease) Lease { return o.View(leases, Layout{}, clock.Now()).Leader }
	controllertest.Equal(t, "a leader without shards", Lease{Owner: "a"}, leader(leaseOf(operator, "a", "1")))
	controllertest.Equal(t, "a leader with shards", Lease{Owner: "b", Confirmed: "1-x"},
		leader(leaseOf(operator, "b", "2"), replicaLease("b", "1-x", "3")))
	clock.SetTime(clock.Now().Add(LeaseDuration + 1))
	controllertest.Equal(t, "a leader whose own Lease has expired", Lease{},
		leader(leaseOf(operator, "b", "4"), replicaLease("b", "1-x", "3")))
	controllertest.Equal(t, "a leader whose own Lease is deleted", Lease{}, leader(leaseOf(operator, "b", "5")))
}

func TestOfferedShardIsTakenBeyondTheShare(t *testing.T) {
	layout := Layout{Version: 1, Cuts: Balance(nil, 4)}
	for name, c := range map[string]struct {
		replicas []string
		offered  string
		want     []int
	}{
		"by the replica that it is offered to":            {[]string{"a", "b", "c", "d"}, "a", []int{3}},
		"by nobody else":                                  {[]string{"a", "b"}, "b", []int{}},
		"by any replica if the other has no share itself": {[]string{"a", "c"}, "b", []int{3}},
	} {
		t.Run(name, func(t *testing.T) {
			v := View{
				Replicas: c.replicas, Layout: layout, Leases: []Lease{
					{Owner: "a"}, {Owner: "b"}, {Owner: "b"}, {Offered: c.offered},
				},
			}
			controllertest.Equal(t, "shards to take", c.want, append([]int{}, v.Take("a")...))
		})
	}
}

// TestShardsAreReleasedOnlyForReplicasThatAreSeenToRun shows that a new process releases no shard for a replica that
// has long been gone.
func TestShardsAreReleasedOnlyForReplicasThatAreSeenToRun(t *testing.T) {
	o := NewObserver(operator, clocktesting.NewFakePassiveClock(time.Now()))
	layout := Layout{Version: 1, Cuts: Balance(nil, 2)}
	leases := []coordinationv1.Lease{
		leaseOf(LeaseName(operator, 0), "a", "1"), leaseOf(LeaseName(operator, 1), "a", "2"),
		replicaLease("a", "", "3"), replicaLease("b", "", "4"),
	}
	releases := func() bool {
		_, _, ok := o.View(leases, layout, time.Now()).Surplus("a")
		return ok
	}
	controllertest.Equal(t, "a shard is released at first", false, releases())
	leases[2].ResourceVersion = "5"
	controllertest.Equal(t, "a shard is released when the process has renewed its own Lease", false, releases())
	leases[3].ResourceVersion = "6"
	controllertest.Equal(t, "a shard is released when the other replica has renewed its Lease", true, releases())
}

// TestReplicaThatIsGoneHasNoShare shows that a new process soon takes the shards of a replica that has long been gone.
func TestReplicaThatIsGoneHasNoShare(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	o, layout := NewObserver(operator, clock), Layout{Version: 1, Cuts: Balance(nil, 4)}
	leases := []coordinationv1.Lease{replicaLease("a", "", "1"), replicaLease("b", "", "2")}
	for _, c := range []struct {
		after time.Duration
		share int
	}{{0, 2}, {5 * time.Second, 2}, {time.Second, 4}} {
		clock.SetTime(clock.Now().Add(c.after))
		leases[0].ResourceVersion += "0"
		controllertest.Equal(t, "shards to take", c.share, len(o.View(leases, layout, clock.Now()).Take("a")))
	}
}

func TestTimeOfResponseDoesNotMakeLeaseExpire(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	o, leases := NewObserver(operator, clock), []coordinationv1.Lease{
		leaseOf(LeaseName(operator, 0), "a", "1"), replicaLease("a", "", "2"),
	}
	o.View(leases, Layout{}, clock.Now())
	asked := clock.Now().Add(2 * time.Second)
	clock.SetTime(clock.Now().Add(time.Minute))
	if !o.View(leases, Layout{}, asked).Owns("a", 0) {
		t.Error("a Lease counts as expired although it was valid when it was requested")
	}
}

func TestLeasesThatNobodyNeedsAreFound(t *testing.T) {
	replica := ReplicaLeaseName(operator, "a")
	for name, c := range map[string]struct {
		other     coordinationv1.Lease // beside the Lease of replica a
		after     time.Duration        // between two Views
		renewed   bool                 // whether the second View shows a renewal of the Lease of replica a
		gone      []string
		abandoned []string
	}{
		"a replica whose Lease is no longer valid": {
			leaseOf(LeaseName(operator, 0), "b", "1"), LeaseDuration + 1, false, []string{replica}, nil,
		},
		"a replica whose Lease is valid":    {leaseOf(LeaseName(operator, 0), "b", "1"), LeaseDuration, false, nil, nil},
		"a replica whose Lease was renewed": {leaseOf(LeaseName(operator, 0), "b", "1"), LeaseDuration + 1, true, nil, nil},
		"a replica that is named by the Lease of a shard": {
			leaseOf(LeaseName(operator, 1), "a", "1"), LeaseDuration + 1, false, nil, nil,
		},
		"a replica that is named by the Lease of the leader": {
			leaseOf(operator, "a", "1"), LeaseDuration + 1, false, nil, nil,
		},
		"beside a Lease whose name is not that of its holder": {
			leaseOf(ReplicaLeaseName(operator, "b"), "c", "1"), LeaseDuration + 1, false, []string{replica}, nil,
		},
		"a surplus shard whose owner runs": {leaseOf(LeaseName(operator, 2), "a", "1"), 0, false, nil, nil},
		"a surplus shard whose owner is gone": {
			leaseOf(LeaseName(operator, 2), "a", "1"), LeaseDuration + 1, false, nil, []string{LeaseName(operator, 2)},
		},
		"a surplus shard without an owner": {leaseOf(LeaseName(operator, 2), "", "1"), 0, false, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Now())
			o := NewObserver(operator, clock)
			// two shards
			leases, layout := []coordinationv1.Lease{c.other, replicaLease("a", "", "2")}, Layout{Cuts: []uint64{5}}
			o.View(leases, layout, clock.Now())
			clock.SetTime(clock.Now().Add(c.after))
			if c.renewed {
				leases[1].ResourceVersion = "3"
			}
			o.View(leases, layout, clock.Now())
			controllertest.Equal(t, "Leases of replicas that are gone", c.gone, names(o.Gone(leases)))
			controllertest.Equal(t, "Leases of shards that are abandoned", c.abandoned, names(o.Abandoned(leases, layout)))
		})
	}
}

func names(leases []coordinationv1.Lease) (names []string) {
	for _, lease := range leases {
		names = append(names, lease.Name)
	}
	return names
}

func TestReplicaThatStopsHasNoShare(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	stopping := replicaLease("b", "", "2")
	stopping.Annotations[StoppingAnnotation] = "true"
	v := NewObserver(operator, clock).View([]coordinationv1.Lease{
		replicaLease("a", "", "1"), stopping, leaseOf(LeaseName(operator, 0), "b", "3"),
	}, Layout{}, clock.Now())
	controllertest.Equal(t, "replicas", []string{"a"}, v.Replicas)
	controllertest.Equal(t, "whether it owns its shard", true, v.Owns("b", 0))
}
