package postgresql

import (
	"strings"
	"testing"
)

// planned returns the statements of all steps until nextStep returns none, one on each line. It changes seen to the
// state after these steps.
func planned(t *testing.T, c *change, nextStep func(state) (step, error), seen *state) string {
	t.Helper()
	var all []string
	for range maxSteps {
		next, err := nextStep(*seen)
		if err != nil {
			t.Fatal(err)
		}
		if next.sql == "" {
			return strings.Join(all, "\n")
		}
		all = append(all, next.sql)
		next.then(seen)
		c.newPassword = c.newPassword && !next.setsPassword
	}
	t.Fatalf("the plan does not end: %q", all)
	return ""
}

func TestNextStatementOfRetirement(t *testing.T) {
	const noLogin = `ALTER ROLE "clerk" NOLOGIN PASSWORD NULL`
	const end = `SELECT pg_terminate_backend(pid, 250) FROM pg_stat_activity WHERE usename = 'clerk' ` +
		`AND backend_type IN ('client backend', 'walsender')`
	for name, c := range map[string]struct {
		seen       func(*state)
		byNext     bool // the second alternate login is in use, and the first one retires
		sql        string
		isPrevious bool
	}{
		"a previous login that cannot log in": {},
		"the previous login loses its login first": {
			seen: func(s *state) { s.Role.Login, s.Role.Sessions = true, true }, sql: noLogin, isPrevious: true,
		},
		"then its sessions end": {seen: func(s *state) { s.Role.Sessions = true }, sql: end, isPrevious: true},
		"the login ends before an administrator joins": {
			seen: func(s *state) { s.Role.Login, s.Role.Held = true, false }, sql: noLogin, isPrevious: true,
		},
		"an administrator joins to end the sessions": {
			seen: func(s *state) { s.Role.Sessions, s.Role.Held = true, false }, sql: `GRANT "clerk" TO CURRENT_USER`,
			isPrevious: true,
		},
		"whatever mark its user writes on the database": {
			seen: func(s *state) { s.Role.Login, s.Database.Mark = true, theirMark }, sql: noLogin, isPrevious: true,
		},
		"a login that was handed over": {
			seen: func(s *state) { handedOver(s); s.Role.Login = true }, sql: noLogin, isPrevious: true,
		},
		"a superuser need not join": {
			seen: func(s *state) { s.Role.Login, s.Role.Held, s.Superuser = true, false, true }, sql: noLogin, isPrevious: true,
		},
		"an alternate login gives its objects to the owner": {
			byNext: true, seen: func(s *state) { s.Alternates[0].Login, s.Alternates[0].Owns = false, true },
			sql: `SET LOCAL ROLE NONE; REASSIGN OWNED BY "clerk-login1" TO "clerk"`,
		},
		"so does an alternate login in use": {
			seen: func(s *state) { s.Alternates[0].Owns = true },
			sql:  `SET LOCAL ROLE NONE; REASSIGN OWNED BY "clerk-login1" TO "clerk"`,
		},
		"the owner that can log in again after two rotations": {
			byNext: true, seen: func(s *state) { s.Role.Login, s.Alternates[0].Login = true, false }, sql: noLogin,
			isPrevious: true,
		},
		"the previous alternate login, then the owner": {
			byNext: true, seen: func(s *state) { s.Role.Login = true },
			sql: `ALTER ROLE "clerk-login1" NOLOGIN PASSWORD NULL`, isPrevious: true,
		},
		"an alternate login loses its login": {
			byNext: true, sql: `ALTER ROLE "clerk-login1" NOLOGIN PASSWORD NULL`, isPrevious: true,
		},
		"a missing alternate login": {byNext: true, seen: func(s *state) { s.Alternates = nil }},
		"a role of another object":  {byNext: true, seen: func(s *state) { s.Alternates[0].Mark = theirMark }},
		"a role without a mark":     {byNext: true, seen: func(s *state) { s.Alternates[0].Mark = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			w := want()
			w.Login, w.ID = w.Alternates[0], ourID
			if c.byNext {
				w.Login = w.Alternates[1]
			}
			change := newChange(w)
			seen := withAlternate(c.seen)
			if isPrevious := change.previous(seen) != nil; isPrevious != c.isPrevious {
				t.Errorf("a previous login works: %t", isPrevious)
			}
			sql := strings.Split(planned(t, change, change.nextOfRetirement, &seen), "\n")
			if sql[0] != c.sql || change.previous(seen) != nil {
				t.Errorf("wanted %s first\ngot    %q", c.sql, sql)
			}
		})
	}
}

func TestPlannedRotationEnds(t *testing.T) {
	for name, seen := range map[string]func(*state){
		"a new alternate login": func(s *state) { s.Alternates, s.Role.Login = nil, true },
		"a retired one":         func(s *state) { s.Alternates[0].Login, s.Role.Login = false, true },
		"neither role exists":   func(s *state) { s.Role, s.Alternates, s.Database = nil, nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := want()
			w.Login = w.Alternates[0]
			change := newChange(w)
			change.newPassword = true
			state := withAlternate(seen)
			planned(t, change, change.next, &state)
			if err := change.check(state); err != nil || change.newPassword || !state.role("clerk-login1").Login {
				t.Errorf("the plan ends with %+v, %v, and a new password %t", state, err, change.newPassword)
			}
		})
	}
}
