package process

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

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
				"get leases":    40, // of the cluster, and of the leader
				"update leases": 30, // of the replica
			}
			if m.name == leader {
				want["get leases"], want["update leases"] = 10, 90 // of the leader and the cluster too
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
		// one interval until b has renewed its Lease, and one interval until the next step of a
		if took := time.Since(began); took > 2*stepInterval {
			t.Errorf("it took %v", took)
		}
	})
}

// TestShardsAreTakenAsSoonAsTheirOwnerIsGone lets all requests of a replica fail. In each case, they begin to fail at
// another time between two renewals.
func TestShardsAreTakenAsSoonAsTheirOwnerIsGone(t *testing.T) {
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
				// eventually checks every 100 ms
				l.settlesWithin(leaseDuration+100*time.Millisecond, "when one is gone", map[string]int{"a": 40})
			})
		})
	}
}

// tickers is a clock that records the intervals of its tickers.
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

// TestQueueAtRestWakesSeldom checks the intervals of the tickers of a queue. It is in this package because this package
// registers the metrics of queues, for which client-go starts a ticker.
func TestQueueAtRestWakesSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &tickers{}
		queue := controller.NewQueue("rest", clock)
		synctest.Wait()
		controllertest.Equal(t, "intervals", []time.Duration{10 * time.Second, 10 * time.Second}, clock.intervals)
		queue.ShutDown()
	})
}
