package postgresql

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const (
	address = "db:5432"
	slots   = 5 // for ten workers
)

// callers enters a gate for tests, which run in synctest bubbles with a fake clock.
type callers struct {
	t    *testing.T
	gate *gate
}

func newCallers(t *testing.T) *callers { return &callers{t: t, gate: newGate(slots)} }

// comes enters the gate for a visit to a server of a tenant. It fails the test if the gate rejects the caller.
func (c *callers) comes(tenant, address string) *visit {
	c.t.Helper()
	v, err := c.gate.enter(tenant, address)
	if err != nil {
		c.t.Fatalf("%s at %s is not let in: %v", tenant, address, err)
	}
	return v
}

// isTold tries to enter the gate. It fails the test unless the gate returns an error of the class.
func (c *callers) isTold(tenant, address string, class Class) {
	c.t.Helper()
	v, err := c.gate.enter(tenant, address)
	if err == nil {
		v.leave()
	}
	if ClassOf(err) != class || err == nil {
		c.t.Errorf("%s at %s wanted to be told %s, was told %v", tenant, address, class, err)
	}
}

// finds begins and ends a visit to a server that responds at once, so that the server is proven.
func (c *callers) finds(tenant, address string) {
	c.t.Helper()
	v := c.comes(tenant, address)
	v.asked(nil)
	v.leave()
}

var errAway = NewError(Silent, "no answer")

func TestGateAdmitsTwoVisitsOfTenantToUnprovenServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		first, second := c.comes("a", address), c.comes("a", "other:5432")
		c.isTold("a", address, Busy)
		another := c.comes("b", address) // the gate remembers servers separately for each tenant
		first.asked(nil)
		first.leave()
		all := []*visit{second, another}
		for range 2 * slots { // the server responds, so all callers may visit it
			all = append(all, c.comes("a", address))
		}
		for _, v := range all {
			v.leave()
		}
	})
}

func TestGateLimitsVisitsToSlowServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		c.finds("good", address)
		in := map[string][]*visit{}
		total := 0
		for server := range 12 {
			for _, tenant := range []string{"a", "b", "c", "d"} {
				if v, err := c.gate.enter(tenant, fmt.Sprintf("slow-%d:5432", server)); err == nil {
					in[tenant], total = append(in[tenant], v), total+1
				} else if ClassOf(err) != Busy {
					t.Errorf("%s is told %v", tenant, err)
				}
			}
		}
		if total != slots {
			t.Errorf("%d visits are at slow servers, of %d slots", total, slots)
		}
		for tenant, visits := range in {
			if len(visits) > slotsOfTenant {
				t.Errorf("%d visits are %s's", len(visits), tenant)
			}
		}
		for range 2 * slots { // a visit to a proven server needs no slot
			defer c.comes("good", address).leave()
		}
		for _, visits := range in {
			for _, v := range visits {
				v.leave()
			}
		}
	})
}

// TestGateServesTenantsInTurn runs so many tenants with silent servers that all slots are always
// taken. These tenants already wait when another tenant asks for a slot. The test counts the visits of these
// tenants that begin while the other tenant waits.
func TestGateServesTenantsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		var in []*visit
		server := 0
		crowd := func() (began int) {
			for n := range 20 {
				server++
				if v, err := c.gate.enter(fmt.Sprintf("hostile-%d", n), fmt.Sprintf("silent-%d:5432", server)); err == nil {
					in, began = append(in, v), began+1
				}
			}
			return began
		}
		next := func() { // the oldest visit ends without a response
			<-time.After(time.Second)
			in[0].asked(errAway)
			in[0].leave()
			in = in[1:]
		}
		for crowd(); len(in) > 0 && server < 1000; crowd() { // until each tenant has had a turn
			next()
		}
		began := 0
		for {
			v, err := c.gate.enter("good", address)
			if err == nil {
				v.asked(nil)
				v.leave()
				break
			}
			if began += crowd(); began > slots {
				t.Fatalf("%d visits of others began while it waited", began)
			}
			next()
		}
		c.comes("good", address).leave() // a visit to a proven server needs no slot
		for _, v := range in {
			v.leave()
		}
	})
}

// TestGateDemotesServerThatBecomesSlow has a tenant whose proven servers all become slow.
func TestGateDemotesServerThatBecomesSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		const servers = 10
		var in []*visit
		for n := range servers {
			c.finds("a", fmt.Sprintf("db-%d:5432", n))
		}
		for n := range servers {
			in = append(in, c.comes("a", fmt.Sprintf("db-%d:5432", n)))
		}
		<-time.After(slowAfter + 1)
		synctest.Wait()
		goOn := 0
		for _, v := range in {
			if v.ctx.Err() == nil {
				goOn++
			}
		}
		if goOn > slotsOfTenant {
			t.Errorf("%d visits go on", goOn)
		}
		for _, v := range in {
			v.asked(nil)
			v.leave()
		}
		first := c.comes("a", "db-0:5432")
		c.isTold("a", "db-1:5432", Busy) // after a slow visit the tenant has only one slot
		c.finds("b", "db-1:5432")
		first.asked(nil)
		first.leave()
		<-time.After(struckFor)
		c.finds("a", "db-0:5432")
		for range servers {
			defer c.comes("a", "db-0:5432").leave()
		}
	})
}

// TestVisitTimesOut visits a server that never responds to a statement.
func TestVisitTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		lasts := func(want time.Duration) {
			t.Helper()
			v := c.comes("a", address)
			began := time.Now()
			ctx, cancel := v.within(t.Context())
			<-ctx.Done()
			cancel()
			if took := time.Since(began); took != want {
				t.Errorf("it ended after %s, wanted %s", took, want)
			}
			v.asked(errSlow)
			v.leave()
			<-time.After(awayFor)
		}
		lasts(longest)
		c.finds("a", address)
		lasts(longest)
	})
}

func TestRetryDelayGrowsWhileServerIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		defer c.comes("a", address).leave()
		defer c.comes("a", address).leave()
		for _, waited := range []time.Duration{0, 4 * time.Second, time.Minute} {
			<-time.After(waited)
			_, err := c.gate.enter("a", address)
			want := min(max(waited, busyBase), busyLimit)
			if after := RetryAfter(err); after < want*3/4 || after > want*7/4 {
				t.Errorf("after %s it comes again in %s", waited, after)
			}
		}
	})
}

// TestGateAdmitsManyTenantsSoon simulates the operator's start: all servers respond fast, and the gate
// knows none of them.
func TestGateAdmitsManyTenantsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		const tenants = 300
		var done sync.WaitGroup
		var tries atomic.Int32
		for n := range tenants {
			done.Go(func() {
				<-time.After(time.Duration(n) * time.Millisecond)
				for {
					tries.Add(1)
					v, err := c.gate.enter(fmt.Sprint(n), address)
					if err == nil {
						<-time.After(50 * time.Millisecond)
						v.asked(nil)
						v.leave()
						return
					}
					<-time.After(RetryAfter(err))
				}
			})
		}
		done.Wait()
		if n := tries.Load(); n > 40*tenants {
			t.Errorf("%d tenants tried %d times", tenants, n)
		}
	})
}

func TestGateForgetsServersAndTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		for n := range 10 * maxServersOfTenant {
			c.finds("a", fmt.Sprintf("%d:5432", n))
		}
		if n := len(c.gate.tenants["a"].servers); n > maxServersOfTenant {
			t.Errorf("it knows %d servers of a tenant", n)
		}
		for n := range slots {
			c.finds(fmt.Sprint(n), address)
		}
		stays := c.comes("a", "in use:5432")
		<-time.After(forgetAfter + 1)
		c.finds("b", address)
		if n, tenants := len(c.gate.tenants["a"].servers), len(c.gate.tenants); n != 1 || tenants != 2 {
			t.Errorf("it knows %d servers of a tenant, and %d tenants after a while", n, tenants)
		}
		stays.leave()
	})
}
