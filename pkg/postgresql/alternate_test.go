package postgresql

import (
	"strings"
	"testing"
)

// withAlternate returns the state in which the alternate login is in use and the owner cannot log in, after change.
func withAlternate(change func(*sight)) sight {
	return there(func(s *sight) {
		s.Role.Login = false
		s.Alternate = &seenAlternate{seenRole: seenRole{Mark: s.Role.Mark, Held: true, Login: true}, Inherits: true, Member: true, Acts: true}
		if change != nil {
			change(s)
		}
	})
}

// unheld is a state as the login observes it: it does not act for its alternate login.
func unheld(s *sight) { s.Alternate.Held = false }

func TestNextStatementForAlternateLogin(t *testing.T) {
	const markAlternate = `COMMENT ON ROLE "clerk_alt" IS 'windlass.dev/externaldatabase team/shop uid-1'`
	const create = `CREATE ROLE "clerk_alt" LOGIN INHERIT NOSUPERUSER NOCREATEROLE NOCREATEDB PASSWORD …; ` + markAlternate
	const act = `ALTER ROLE "clerk_alt" SET role = 'clerk'`
	for name, c := range map[string]struct {
		seen        func(*sight)
		newPassword bool
		sql         string
		class       Class
	}{
		"nothing is left to do": {seen: unheld},
		"a missing alternate login is created as a member of the owner": {
			seen: func(s *sight) { s.Alternate = nil }, newPassword: true,
			sql: create + `; GRANT "clerk_alt" TO CURRENT_USER; GRANT "clerk" TO "clerk_alt"; ` + act,
		},
		"PostgreSQL 16 gets the options of the membership": {
			seen: func(s *sight) { s.Alternate, s.Version = nil, 160000 }, newPassword: true,
			sql: create + `; GRANT "clerk_alt" TO CURRENT_USER WITH INHERIT TRUE, SET TRUE; GRANT "clerk" TO "clerk_alt" WITH INHERIT TRUE, SET TRUE; ` + act,
		},
		"a superuser is not a member of the alternate login": {
			seen: func(s *sight) { s.Alternate, s.Superuser = nil, true }, newPassword: true, sql: create + `; GRANT "clerk" TO "clerk_alt"; ` + act,
		},
		"a retired alternate login can log in with a new password": {
			seen: func(s *sight) { s.Alternate.Login, s.Alternate.Expires = false, true }, newPassword: true,
			sql: `ALTER ROLE "clerk_alt" LOGIN VALID UNTIL 'infinity' PASSWORD …`,
		},
		"drift of the alternate login is corrected": {
			seen: func(s *sight) {
				*s.Alternate = seenAlternate{seenRole: seenRole{CreateRole: true, Mark: s.Alternate.Mark}}
			},
			sql: `ALTER ROLE "clerk_alt" LOGIN NOCREATEROLE INHERIT; GRANT "clerk" TO "clerk_alt"; ` + act + `; ALTER ROLE "clerk_alt" IN DATABASE "shop" RESET role`,
		},
		"a removed mark of the login in use is restored":            {seen: func(s *sight) { s.Alternate.Mark = "" }, sql: markAlternate},
		"a role without a mark that does not act as the owner":      {seen: func(s *sight) { s.Alternate.Mark, s.Alternate.Acts = "", false }, class: Taken},
		"a role of another object":                                  {seen: func(s *sight) { s.Alternate.Mark = theirMark }, newPassword: true, class: Taken},
		"the login of the owner is left alone":                      {seen: func(s *sight) { s.Role.Login = true }},
		"an expired owner is left alone":                            {seen: func(s *sight) { s.Role.Expires = true }},
		"other attributes of the owner are corrected":               {seen: func(s *sight) { s.Role.CreateDatabase = true }, sql: `ALTER ROLE "clerk" NOCREATEDB`},
		"an owner that was dropped is created and cannot log in":    {seen: func(s *sight) { s.Role, s.Database, s.Superuser = nil, nil, true }, sql: `CREATE ROLE "clerk" NOLOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB; ` + strings.Replace(markAlternate, "_alt", "", 1)},
		"an alternate login that lost its membership gets it again": {seen: func(s *sight) { s.Alternate.Member = false }, sql: `GRANT "clerk" TO "clerk_alt"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := want()
			w.Login = w.Alternate
			change, err := newChange(w)
			if err != nil {
				t.Fatal(err)
			}
			change.newPassword = c.newPassword
			next, err := change.next(withAlternate(c.seen))
			if masked(next.sql) != c.sql || ClassOf(err) != c.class || (err == nil) != (c.class == Other) {
				t.Errorf("wanted %s and class %s\ngot    %s and %v", c.sql, c.class, masked(next.sql), err)
			}
			if next.setsPassword != strings.Contains(next.sql, "SCRAM-SHA-256") {
				t.Errorf("setsPassword is %t for %s", next.setsPassword, next.sql)
			}
		})
	}
}

func TestNextStatementOfRetirement(t *testing.T) {
	const noLogin, end = `ALTER ROLE "clerk" NOLOGIN PASSWORD NULL`, `SELECT pg_terminate_backend(pid, 250) FROM pg_stat_activity WHERE usename = 'clerk'`
	for name, c := range map[string]struct {
		seen     func(*sight)
		byOwner  bool // the owner is the login, and the alternate login retires
		sql      string
		isFormer bool
	}{
		"a former login that cannot log in": {},
		"the former login loses its login first": {
			seen: func(s *sight) { s.Role.Login, s.Role.Sessions = true, true }, sql: noLogin, isFormer: true,
		},
		"then its sessions end":                             {seen: func(s *sight) { s.Role.Sessions = true }, sql: end, isFormer: true},
		"an old server does not wait for the sessions":      {seen: func(s *sight) { s.Role.Sessions, s.Version = true, 130000 }, sql: strings.Replace(end, ", 250", "", 1), isFormer: true},
		"an administrator joins the role before":            {seen: func(s *sight) { s.Role.Login, s.Role.Held = true, false }, sql: `GRANT "clerk" TO CURRENT_USER`, isFormer: true},
		"a superuser need not join":                         {seen: func(s *sight) { s.Role.Login, s.Role.Held, s.Superuser = true, false, true }, sql: noLogin, isFormer: true},
		"an alternate login gives its objects to the owner": {byOwner: true, seen: func(s *sight) { s.Alternate.Login, s.Alternate.Owns = false, true }, sql: `SET LOCAL ROLE NONE; REASSIGN OWNED BY "clerk_alt" TO "clerk"`, isFormer: true},
		"an alternate login in use keeps its objects":       {seen: func(s *sight) { s.Alternate.Owns = true }},
		"an alternate login loses its login":                {byOwner: true, sql: `ALTER ROLE "clerk_alt" NOLOGIN PASSWORD NULL`, isFormer: true},
		"a missing alternate login":                         {byOwner: true, seen: func(s *sight) { s.Alternate = nil }},
		"a role of another object":                          {byOwner: true, seen: func(s *sight) { s.Alternate.Mark = theirMark }},
		"a role without a mark":                             {byOwner: true, seen: func(s *sight) { s.Alternate.Mark = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			w := want()
			if !c.byOwner {
				w.Login = w.Alternate
			}
			change, err := newChange(w)
			if err != nil {
				t.Fatal(err)
			}
			seen := withAlternate(c.seen)
			next, err := change.nextOfRetirement(seen)
			if err != nil || next.sql != c.sql || change.hasFormer(seen) != c.isFormer {
				t.Errorf("wanted %s and former %t\ngot    %s and %t, %v", c.sql, c.isFormer, next.sql, change.hasFormer(seen), err)
			}
			for range maxSteps { // the states that a plan predicts
				if next, err = change.nextOfRetirement(seen); err != nil || next.sql == "" {
					break
				}
				seen = change.afterRetirement(seen)
			}
			if err != nil || next.sql != "" || change.hasFormer(seen) {
				t.Errorf("a plan does not end: %s, %v", next.sql, err)
			}
		})
	}
}

func TestDeletionDropsAlternateLogin(t *testing.T) {
	for name, c := range map[string]struct {
		seen func(*sight)
		sql  []string
	}{
		"after the database and before the owner": {sql: []string{`DROP DATABASE "shop" WITH (FORCE)`, `DROP ROLE "clerk_alt"`, `DROP ROLE "clerk"`}},
		"not a role of another object": {
			seen: func(s *sight) { s.Alternate.Mark = theirMark }, sql: []string{`DROP DATABASE "shop" WITH (FORCE)`, `DROP ROLE "clerk"`}},
		"not a role without a mark": {
			seen: func(s *sight) { s.Alternate.Mark = "" }, sql: []string{`DROP DATABASE "shop" WITH (FORCE)`, `DROP ROLE "clerk"`}},
		"although the owner was dropped": {seen: func(s *sight) { s.Role, s.Database = nil, nil }, sql: []string{`DROP ROLE "clerk_alt"`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := want()
			w.ID = ourID
			change, err := newChange(w)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			seen := withAlternate(c.seen)
			for range maxSteps {
				next, err := change.nextOfDeletion(seen)
				if err != nil {
					t.Fatal(err)
				}
				if next.sql == "" {
					break
				}
				got, seen = append(got, next.sql), change.afterDeletion(seen)
			}
			if strings.Join(got, "\n") != strings.Join(c.sql, "\n") {
				t.Errorf("wanted %q\ngot    %q", c.sql, got)
			}
		})
	}
}

func TestPlannedRotationEnds(t *testing.T) {
	for name, seen := range map[string]func(*sight){
		"a new alternate login": func(s *sight) { s.Alternate, s.Role.Login = nil, true },
		"a retired one":         func(s *sight) { s.Alternate.Login, s.Role.Login = false, true },
		"neither role exists":   func(s *sight) { s.Role, s.Alternate, s.Database = nil, nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := want()
			w.Login = w.Alternate
			change, err := newChange(w)
			if err != nil {
				t.Fatal(err)
			}
			change.planned, change.newPassword = true, true
			state := withAlternate(seen)
			for range maxSteps {
				next, err := change.next(state)
				if err != nil {
					t.Fatal(err)
				}
				if next.sql == "" {
					break
				}
				state = change.after(state)
				change.newPassword = change.newPassword && !next.setsPassword
			}
			if found, err := change.found(state); err != nil || !found.Current || change.newPassword || state.Alternate == nil || !state.Alternate.Login {
				t.Errorf("the plan ends with %+v, %v, and a new password %t", found, err, change.newPassword)
			}
		})
	}
}

func TestHandOverAlternate(t *testing.T) {
	w := want()
	const sql = `COMMENT ON ROLE "clerk_alt" IS 'windlass.dev/externaldatabase team/shop uid-1';`
	if got := HandOverAlternate(w); got != sql {
		t.Errorf("got %s", got)
	}
	w.Alternate = strings.Repeat("x", 64)
	if got := HandOverAlternate(w); got != "" {
		t.Errorf("got %s for a name that is none", got)
	}
}
