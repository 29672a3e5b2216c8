package process

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestReplicasAtRestSendFewRequests(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		replicas := []*member{l.start("a", 4), l.start("b", 4)}
		l.settles("at first", map[string]int{"a": 20, "b": 20})
		l.passes(time.Minute)
		leader := holderOf(lease(t, l.client))
		for _, m := range replicas {
			m.client.ClearActions()
		}
		l.passes(time.Minute)
		for _, m := range replicas {
			want := map[string]int{
				"list leases": 10, "get configmaps": 10,
				"get leases":    10, // of the cluster
				"update leases": 30, // of the replica
			}
			if m.name == leader {
				want["update leases"] = 90 // of the leader and the cluster too
			}
			got := map[string]int{}
			for _, action := range m.client.Actions() {
				got[action.GetVerb()+" "+action.GetResource().Resource]++
			}
			for request, most := range want {
				if got[request] > most+1 { // the minute may have begun just before a request
					t.Errorf("%s sent %d requests %q in a minute, and %d were expected", m.name, got[request], request, most)
				}
				delete(got, request)
			}
			controllertest.Equal(t, "other requests of "+m.name, map[string]int{}, got)
		}
	})
}

// TestShardsAreReleasedWithoutPause lets a replica release six of twelve shards, one after another.
func TestShardsAreReleasedWithoutPause(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		l.start("a", 12)
		l.settles("with one replica", map[string]int{"a": 40})
		l.passes(time.Minute)
		l.start("b", 12)
		began := time.Now()
		l.eventually("the second replica to have its share", func() bool { return l.shares()["b"] >= 18 })
		// one until b has renewed its Lease, and one for the step after that
		if took := time.Since(began); took > 2*stepInterval {
			t.Errorf("it took %v", took)
		}
	})
}

// TestShardsAreTakenAsSoonAsTheirHolderIsGone stops the requests of a replica at several times between its renewals.
func TestShardsAreTakenAsSoonAsTheirHolderIsGone(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 2500 * time.Millisecond, 4 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			inLedger(t, func(t *testing.T, l *ledger) {
				l.start("a", 4)
				l.eventually("the first replica to lead", func() bool {
					return l.cuts() == 3 && holderOf(lease(t, l.client)) == "a"
				})
				b := l.start("b", 4)
				l.settles("at first", map[string]int{"a": 20, "b": 20})
				l.passes(time.Minute + after)
				b.cut.Store(true)
				// eventually looks every 100 ms
				l.settlesWithin(leaseDuration+100*time.Millisecond, "when one is gone", map[string]int{"a": 40})
			})
		})
	}
}

func TestCandidateReadsNoLeaseThatIsRenewed(t *testing.T) {
	for name, c := range map[string]struct {
		holder, identity string
		ago              time.Duration
		requests         int
	}{
		"renewed by another process":                           {"other", "self", missedRenewals*retryPeriod - 1, 0},
		"not renewed three times":                              {"other", "self", missedRenewals * retryPeriod, 1},
		"renewed by another installation":                      {"theirs/other", "ours/self", 0, 0},
		"renewed by another process of this installation, too": {"ours/other", "ours/self", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			client, now := fake.NewClientset(), time.Now()
			clock := clocktesting.NewFakePassiveClock(now)
			other, _ := lockOf(client, clock, c.holder)
			record := resourcelock.LeaderElectionRecord{
				HolderIdentity: c.holder, LeaseDurationSeconds: 15, RenewTime: metav1.NewTime(now), LeaderTransitions: 3,
			}
			controllertest.ErrorContains(t, "", other.Create(t.Context(), record))
			self, _ := lockOf(client, clock, c.identity)
			want, raw, err := self.Interface.Get(t.Context())
			controllertest.ErrorContains(t, "", err)
			self.watch.clock = clocktesting.NewFakeClock(now.Add(c.ago))
			self.watch.renewal.Store(&renewal{lease(t, client), now})
			client.ClearActions()
			got, gotRaw, err := self.Get(t.Context())
			controllertest.ErrorContains(t, "", err)
			if self.countsAsFree(c.holder) {
				want.HolderIdentity = ""
			}
			controllertest.Equal(t, "record", want, got)
			controllertest.Equal(t, "text", string(raw), string(gotRaw))
			controllertest.Equal(t, "former holder", c.holder, self.former)
			controllertest.Equal(t, "requests", c.requests, len(client.Actions()))
		})
	}
}

func TestOnlyRenewalsByAnotherProcessCountAsRenewals(t *testing.T) {
	at := func(holder string, second int64) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: ptr.To(metav1.NewMicroTime(time.Unix(second, 0))),
		}}
	}
	added := watch.Event{Type: watch.Added, Object: at("other", 1)}
	for name, c := range map[string]struct {
		events []watch.Event
		want   bool
	}{
		"the start of a watch": {[]watch.Event{added}, false},
		"a renewal":            {[]watch.Event{added, {Type: watch.Modified, Object: at("other", 2)}}, true},
		"a change of the metadata": {
			[]watch.Event{
				added, {Type: watch.Modified, Object: at("other", 2)}, {Type: watch.Modified, Object: at("other", 2)},
			}, false,
		},
		"a renewal by this process": {[]watch.Event{added, {Type: watch.Modified, Object: at("self", 2)}}, false},
		"a release": {
			[]watch.Event{
				added, {Type: watch.Modified, Object: at("other", 2)}, {Type: watch.Modified, Object: at("", 3)},
			}, false,
		},
		"a Lease that somebody deletes": {
			[]watch.Event{
				added, {Type: watch.Modified, Object: at("other", 2)}, {Type: watch.Deleted, Object: at("other", 3)},
			}, false,
		},
		"an error of the watch": {
			[]watch.Event{
				added, {Type: watch.Modified, Object: at("other", 2)}, {Type: watch.Error, Object: &metav1.Status{}},
			}, false,
		},
		"a renewal before the watch ended": {[]watch.Event{added, {Type: watch.Modified, Object: at("other", 2)}, {}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &leaseWatch{name: leaseName, identity: "self", clock: clock.RealClock{}}
				events := watch.NewFake()
				go w.follow(t.Context(), events, func() {})
				for _, event := range c.events {
					if event == (watch.Event{}) {
						events.Stop()
					} else {
						events.Action(event.Type, event.Object)
					}
				}
				synctest.Wait()
				controllertest.Equal(t, "renewed", c.want, w.renewed(time.Second) != nil)
			})
		})
	}
}

// tickers is a clock that records how often its tickers tick.
type tickers struct {
	clock.RealClock
	mu        sync.Mutex
	intervals []time.Duration
}

// NewTicker implements clock.WithTicker.
func (c *tickers) NewTicker(interval time.Duration) clock.Ticker {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.intervals = append(c.intervals, interval)
	return c.RealClock.NewTicker(interval)
}

// TestQueueAtRestWakesSeldom is in this package because it has the metrics of queues, for which client-go has a ticker.
func TestQueueAtRestWakesSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &tickers{}
		queue := controller.NewQueue("rest", clock)
		synctest.Wait()
		controllertest.Equal(t, "intervals", []time.Duration{10 * time.Second, 10 * time.Second}, clock.intervals)
		queue.ShutDown()
	})
}
