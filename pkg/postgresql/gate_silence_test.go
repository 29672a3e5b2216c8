package postgresql

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestGateRejectsVisitsToServerThatMayBeStartingForShorterTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		fails := func(took time.Duration) {
			t.Helper()
			v := c.comes("a", address)
			<-time.After(took)
			v.asked(errAway)
			v.leave()
			c.isTold("a", address, Silent)
		}
		for _, away := range []time.Duration{
			time.Second, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, awayFor, awayFor,
		} {
			fails(0)
			<-time.After(away - 1)
			c.isTold("a", address, Silent)
			<-time.After(1)
		}
		v := c.comes("a", address)
		v.asked(nil)
		v.leave()
		fails(0) // the server has responded
		<-time.After(awayFor - 1)
		c.isTold("a", address, Silent)
	})
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		v := c.comes("a", address)
		<-time.After(2 * quick) // a time-out occupies a worker
		v.asked(errAway)
		v.leave()
		<-time.After(awayFor - 1)
		c.isTold("a", address, Silent)
	})
}

func TestGateRejectsVisitsToSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		first := c.comes("a", address)
		first.asked(nil)
		first.asked(fmt.Errorf("logging in as somebody: %w", errAway))
		first.leave()
		c.isTold("a", address, Silent)
		if _, err := c.gate.enter("a", address); err == nil || err.Error() != "no answer" {
			t.Errorf("others are told who asked: %v", err)
		}
		c.comes("b", address).leave()
		<-time.After(awayFor - 1)
		c.isTold("a", address, Silent)
		<-time.After(1)
		again := c.comes("a", address)
		c.isTold("a", address, Busy)
		again.asked(errAway)
		again.leave()
		c.isTold("a", address, Silent)
		<-time.After(awayFor)
		c.finds("a", address)
		c.comes("a", address).leave()
	})
}

func TestSilenceDependsOnError(t *testing.T) {
	reported := func(code string) error { return hearing{}.reported(&pgconn.PgError{Code: code}) }
	for name, c := range map[string]struct {
		err    error
		silent bool
	}{
		"an answer":               {nil, false},
		"a login that is refused": {reported(codeInvalidPassword), false},
		"something else":          {fmt.Errorf("something else"), false},
		"a database that is full": {reported("53300"), false}, // its owner can set the connection limit
		"a lock of another's":     {reported("55P03"), false},
		"a server that starts":    {reported(codeStarting), true},
		"no answer":               {errAway, true},
	} {
		if isSilent(c.err) != c.silent {
			t.Errorf("%s is silent: %t", name, !c.silent)
		}
	}
}

// TestGateRejectsVisitsToServerThatStopsResponding visits a server that responds first, and then stops
// responding.
func TestGateRejectsVisitsToServerThatStopsResponding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		c.finds("a", address)
		first := c.comes("a", address)
		second := c.comes("a", address)
		<-time.After(patience + 1)
		c.isTold("a", address, Busy)
		first.asked(nil) // the server still responds
		third := c.comes("a", address)
		<-time.After(patience + 1)
		for _, v := range []*visit{first, second, third} {
			c.isTold("a", address, Busy)
			v.leave()
		}
		c.comes("a", address).leave()
	})
}
