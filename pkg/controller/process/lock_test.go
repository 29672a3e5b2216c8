package process

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

// lockOf returns the lock of the process identity, with the durations of a real Lease. lost is set when the lock ends
// the election.
func lockOf(client *fake.Clientset, clock *clocktesting.FakePassiveClock, identity string) (l *lock, lost *bool) {
	lost = new(bool)
	return &lock{
		term: newTerm(clock, leaseDuration, renewDeadline), lost: func() { *lost = true },
		Interface: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "windlass-system", Name: leaseName}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
	}, lost
}

// TestHolderThatRenewsTooLateHasLostItsLease covers a process that was stopped, and continues after another process has
// held and released the Lease.
func TestHolderThatRenewsTooLateHasLostItsLease(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	held, lost := lockOf(fake.NewClientset(), clock, "self")
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "self"}
	controllertest.ErrorContains(t, "", held.Create(t.Context(), record))
	for _, c := range []struct {
		pause time.Duration
		want  string
	}{{renewDeadline, ""}, {leaseDuration, ""}, {leaseDuration + 1, errLeaseLost.Error()}, {0, errLeaseLost.Error()}} {
		clock.SetTime(clock.Now().Add(c.pause))
		controllertest.ErrorContains(t, c.want, held.Update(t.Context(), record))
		controllertest.Equal(t, "lost after "+c.pause.String(), c.want != "", *lost)
		controllertest.ErrorContains(t, c.want, elections{{term: held.term}}.check())
	}
}

func TestHolderThatFindsAnotherHolderHasLostItsLease(t *testing.T) {
	for _, holder := range []string{"other", ""} {
		client, clock := fake.NewClientset(), clocktesting.NewFakePassiveClock(time.Now())
		held, lost := lockOf(client, clock, "self")
		controllertest.ErrorContains(t, "", held.Create(t.Context(), resourcelock.LeaderElectionRecord{
			HolderIdentity: "self",
		}))
		other, _ := lockOf(client, clock, "other")
		_, _, err := other.Get(t.Context())
		if err = errors.Join(err, other.Update(t.Context(), resourcelock.LeaderElectionRecord{
			HolderIdentity: holder,
		})); err != nil {
			t.Fatal(err)
		}
		_, _, err = held.Get(t.Context())
		controllertest.ErrorContains(t, errLeaseLost.Error(), err)
		controllertest.Equal(t, "lost when the holder is "+holder, true, *lost)
	}
}

func TestLeaseOfTheClusterPassesWithinAnInstallation(t *testing.T) {
	for _, c := range []struct {
		holder, self string
		free, other  bool
	}{
		{"one/a", "one/b", true, false}, {"one/a", "two/b", false, true}, {
			"a", "b", false, false,
		}, {"one/a", "b", false, true}, {"a", "one/b", false, true},
	} {
		client, clock := fake.NewClientset(), clocktesting.NewFakePassiveClock(time.Now())
		previous, _ := lockOf(client, clock, c.holder)
		controllertest.ErrorContains(t, "", previous.Create(t.Context(), resourcelock.LeaderElectionRecord{
			HolderIdentity: c.holder,
		}))
		next, _ := lockOf(client, clock, c.self)
		record, _, err := next.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		controllertest.Equal(t, c.self+" finds the Lease of "+c.holder+" free", c.free, record.HolderIdentity == "")
		controllertest.Equal(t, c.self+" finds the Lease held by another installation than "+c.holder, c.other,
			next.fromOther())
	}
}

// TestOtherInstallationWaitsUntilNoneOfItsReplicasWrites covers an installation that takes the Lease of the cluster
// from another installation. It must not work before all replicas of the previous installation have stopped sending
// writes.
func TestOtherInstallationWaitsUntilNoneOfItsReplicasWrites(t *testing.T) {
	for previous, waits := range map[string]bool{"one/a": true, "two/a": false, "": false} {
		e := newElection(Lease{Identity: "two/b"})
		clock, began := clocktesting.NewFakeClock(time.Now()), make(chan struct{})
		e.clock = clock
		held, _ := lockOf(fake.NewClientset(), clocktesting.NewFakePassiveClock(time.Now()), "two/b")
		held.previous = previous
		go e.begin(t.Context(), held, func() { close(began) })
		if waits {
			eventually(t, "it to wait", clock.HasWaiters)
			clock.Step(readDeadline)
			controllertest.Equal(t, "waits longer than the other installation writes", true, clock.HasWaiters())
			clock.Step(leaseDuration + reconcilesTimeout - readDeadline)
		}
		<-began
	}
}

// TestOtherInstallationWaitsWithItsLayout checks that the second installation waits even if it has worked on shards
// before. The first installation may no longer renew the Lease of the cluster, and one of its replicas does not know
// that at once.
func TestOtherInstallationWaitsWithItsLayout(t *testing.T) {
	inLedger(t, func(t *testing.T, l *ledger) {
		var rejected atomic.Bool
		of := func(namespace string) func(*member, *Options) {
			return func(m *member, o *Options) {
				o.Leases = leasesOf(m, namespace)
				m.client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
					reject := rejected.Load() && namespace == "one" && action.GetNamespace() == metav1.NamespaceSystem
					return reject, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), leaseName, errors.New("no"))
				})
			}
		}
		before := l.start("before", 4, of("two"))
		l.settles("with the second installation alone", map[string]int{"before": 40})
		before.ends()
		a, b := l.start("a", 4, of("one")), l.start("b", 4, of("one"))
		l.settles("with the first installation", map[string]int{"a": 20, "b": 20})
		c := l.start("c", 4, of("two"))
		l.passes(time.Minute)
		if holderOf(leaseIn(t, l.client, "one")) == "b" {
			a, b = b, a
		}
		rejected.Store(true)
		a.fails()
		l.settles("when the first installation has lost the Lease of the cluster", map[string]int{"c": 40})
		b.ends()
		c.ends()
	})
}

// roundTripper implements http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestFenceRejectsWritesOutsideOfTheTerm(t *testing.T) {
	clock, sent := clocktesting.NewFakePassiveClock(time.Now()), 0
	held, other := newTerm(clock, leaseDuration, renewDeadline), newTerm(clock, leaseDuration, renewDeadline)
	fence := &Fence{}
	client := fence.Wrap(roundTripper(func(*http.Request) (*http.Response, error) { sent++; return nil, nil }))
	attempt := func(when string, allowed bool) {
		t.Helper()
		for method, writes := range map[string]bool{
			http.MethodGet: false, http.MethodPost: true, http.MethodPut: true, http.MethodPatch: true, http.MethodDelete: true,
		} {
			sent = 0
			request, err := http.NewRequestWithContext(t.Context(), method, "https://example.com/apis", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.RoundTrip(request) //nolint:bodyclose // there is no response
			controllertest.Equal(t, method+" is sent "+when, allowed || !writes, sent == 1)
			controllertest.Equal(t, method+" fails "+when, writes && !allowed, errors.Is(err, errFenced))
		}
	}
	attempt("without Leases", true)
	fence.guard(held, other)
	attempt("before the Leases are acquired", false)
	held.renew(clock.Now())
	attempt("with one of two Leases", false)
	other.renew(clock.Now())
	attempt("with all Leases", true)
	clock.SetTime(clock.Now().Add(renewDeadline + 1))
	attempt("after the deadline", false)
	held.renew(clock.Now())
	other.renew(clock.Now())
	attempt("after another renewal", true)
}

// TestTermEndsWhileTheMachineIsSuspended covers the clocks of Linux: the monotonic clock stops while the machine is
// suspended.
func TestTermEndsWhileTheMachineIsSuspended(t *testing.T) {
	sent := time.Now()
	clock := clocktesting.NewFakePassiveClock(sent)
	suspended := newTerm(clock, leaseDuration, renewDeadline)
	suspended.renew(sent)
	for _, c := range []struct {
		name string
		now  time.Time
		acts bool
	}{
		{"both clocks have advanced little", sent.Add(time.Second), true},
		{"only the wall clock has advanced", sent.Round(0).Add(time.Minute), false},
		{"the monotonic clock has advanced", sent.Add(time.Minute), false},
	} {
		clock.SetTime(c.now)
		controllertest.Equal(t, "acts when "+c.name, c.acts, suspended.acts())
	}
}

// TestEndOfTheProcessCancelsNoElection writes a Lease with a context that has ended.
func TestEndOfTheProcessCancelsNoElection(t *testing.T) {
	self, _ := lockOf(fake.NewClientset(), clocktesting.NewFakePassiveClock(time.Now()), "self")
	ended, end := context.WithCancel(t.Context())
	end()
	controllertest.ErrorContains(t, "", self.renew(ended, func(ctx context.Context) error { return ctx.Err() }))
}

func TestReplicaThatRenewsTooLateHasLostItsLease(t *testing.T) {
	clock, client := clocktesting.NewFakeClock(time.Now()), fake.NewClientset()
	p := &presence{
		leases: client.CoordinationV1().Leases("windlass-system"), operator: leaseName, identity: "self", clock: clock,
		term: newTerm(clock, leaseDuration, renewDeadline),
	}
	controllertest.ErrorContains(t, "", p.renew(t.Context()))
	clock.Step(renewDeadline)
	controllertest.ErrorContains(t, "", p.renew(t.Context()))
	clock.Step(renewDeadline + 1)
	controllertest.ErrorContains(t, errLeaseLost.Error(), p.run(t.Context()))
}
