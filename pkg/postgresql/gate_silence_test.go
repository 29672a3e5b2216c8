package postgresql

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestGateRejectsVisitsToSilentServer(t *testing.T) {
	for name, c := range map[string]struct{ took, away time.Duration }{
		"after a timeout, which occupied a worker": {2 * quick, awayFor},
		"after a fast failure":                     {0, quick},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newCallers(t)
				first := g.comes("a", address)
				<-time.After(c.took)
				first.asked(nil)
				first.asked(fmt.Errorf("logging in as somebody: %w", errAway))
				first.leave()
				if _, err := g.gate.enter("a", address); err == nil || err.Error() != "no answer" {
					t.Errorf("others are told who asked: %v", err)
				}
				g.comes("b", address).leave()
				<-time.After(c.away - 1)
				g.isTold("a", address, Silent)
				<-time.After(1)
				g.finds("a", address)
				g.comes("a", address).leave()
			})
		})
	}
}

func TestSilenceDependsOnError(t *testing.T) {
	reported := func(code string) error { return hearing{}.reported(&pgconn.PgError{Code: code}) }
	for name, c := range map[string]struct {
		err    error
		silent bool
	}{
		"an answer":                {nil, false},
		"a login that is rejected": {reported(codeInvalidPassword), false},
		"something else":           {fmt.Errorf("something else"), false},
		"a database that is full":  {reported("53300"), false}, // the owner of a database can set its connection limit
		"a lock of another's":      {reported("55P03"), false},
		"a server that starts":     {reported(codeStarting), true},
		"no answer":                {errAway, true},
	} {
		if (ClassOf(c.err) == Silent) != c.silent {
			t.Errorf("%s is silent: %t", name, !c.silent)
		}
	}
}
