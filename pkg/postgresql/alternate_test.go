package postgresql

import (
	"strings"
	"testing"
)

// withAlternate returns the state in which the alternate login is in use and the owner cannot log in, modified by
// change, which may be nil.
func withAlternate(change func(*state)) state {
	return there(func(s *state) {
		s.Role.Login = false
		s.Alternates = []*seenRole{{
			Name: "clerk-login1", Mark: s.Role.Mark, Held: true, Login: true, Inherits: true, Member: true, Acts: true,
		}}
		if change != nil {
			change(s)
		}
	})
}

// unheld changes a state to the state that the login observes: its session acts as the owner, which must not act as the
// alternate login.
func unheld(s *state) { s.Alternates[0].Held = false }

func TestNextStatementForAlternateLogin(t *testing.T) {
	const markAlternate = `COMMENT ON ROLE "clerk-login1" IS 'windlass.dev/externaldatabase team/shop uid-1'`
	const create = `CREATE ROLE "clerk-login1" LOGIN INHERIT NOSUPERUSER NOCREATEROLE NOCREATEDB PASSWORD 'SCRAM'; ` +
		markAlternate
	const act = `ALTER ROLE "clerk-login1" SET role = 'clerk'`
	for name, c := range map[string]nextCase{
		"a missing database is not created in an update": {
			seen: func(s *state) { s.Database = nil }, id: ourID, err: `database "shop" does not exist any more`,
		},
		"a missing owner is not created without a database": {
			seen: func(s *state) {
				s.Role = nil
				s.Database = nil
			}, id: ourID, err: `database "shop" does not exist any more`,
		},
		"a missing database is not created in a rotation": {
			seen: func(s *state) { s.Database = nil }, rotates: true, err: `database "shop" does not exist any more`,
		},
		"a missing owner is not created in a rotation": {
			seen: func(s *state) { s.Role, s.Database.Owner, s.Superuser = nil, "postgres", true }, id: ourID,
			rotates: true, err: `role "clerk" does not exist any more`,
		},
		"a missing owner is created in an update": {
			seen: func(s *state) { s.Role, s.Database.Owner, s.Superuser = nil, "postgres", true }, id: ourID,
			sql: `CREATE ROLE "clerk" NOLOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB; ` +
				strings.Replace(markAlternate, "-login1", "", 1),
		},
		"nothing is left to do": {seen: unheld},
		"a missing alternate login is created as a member of the owner": {
			seen: func(s *state) { s.Alternates = nil }, newPassword: true,
			sql: create + `; GRANT "clerk-login1" TO CURRENT_USER; GRANT "clerk" TO "clerk-login1"; ` + act,
		},
		"PostgreSQL 16 gets the options of the membership": {
			seen: func(s *state) { s.Alternates, s.Version = nil, 160000 }, newPassword: true,
			sql: create +
				`; GRANT "clerk-login1" TO CURRENT_USER WITH INHERIT TRUE, SET TRUE; GRANT "clerk" TO "clerk-login1" ` +
				`WITH INHERIT TRUE, SET TRUE; ` + act,
		},
		"a superuser is not a member of the alternate login": {
			seen: func(s *state) {
				s.Alternates = nil
				s.Superuser = true
			}, newPassword: true, sql: create + `; GRANT "clerk" TO "clerk-login1"; ` + act,
		},
		"a retired alternate login can log in with a new password": {
			seen: func(s *state) { s.Alternates[0].Login, s.Alternates[0].Expires = false, true }, newPassword: true,
			sql: `ALTER ROLE "clerk-login1" LOGIN VALID UNTIL 'infinity' PASSWORD 'SCRAM'`,
		},
		"drift of the alternate login is corrected": {
			seen: func(s *state) {
				*s.Alternates[0] = seenRole{Name: "clerk-login1", CreateRole: true, Mark: s.Role.Mark}
			},
			sql: `ALTER ROLE "clerk-login1" LOGIN NOCREATEROLE INHERIT; GRANT "clerk" TO "clerk-login1"; ` + act +
				`; ALTER ROLE "clerk-login1" IN DATABASE "shop" RESET role`,
		},
		"a role without a mark that does not act as the owner": {
			seen: func(s *state) { s.Alternates[0].Mark, s.Alternates[0].Acts = "", false }, class: Taken,
		},
		"a role of another object": {
			seen: func(s *state) { s.Alternates[0].Mark = theirMark }, newPassword: true, class: Taken,
		},
		"the login of the owner is left alone": {seen: func(s *state) { s.Role.Login = true }},
		"an expired owner is left alone":       {seen: func(s *state) { s.Role.Expires = true }},
		"objects of the login are given to the owner": {
			seen: func(s *state) { s.Alternates[0].Owns = true },
			sql:  `SET LOCAL ROLE NONE; REASSIGN OWNED BY "clerk-login1" TO "clerk"`,
		},
		"an administrator joins a role with objects before": {
			seen: func(s *state) {
				s.Alternates[0].Owns, s.Alternates[0].Held = true, false
			}, sql: `GRANT "clerk-login1" TO CURRENT_USER`,
		},
		"an owner that was dropped is created and cannot log in": {
			seen: func(s *state) {
				s.Role = nil
				s.Database = nil
				s.Superuser = true
			}, sql: `CREATE ROLE "clerk" NOLOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB; ` +
				strings.Replace(markAlternate, "-login1", "", 1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := want()
			w.Login = w.Alternates[0]
			c.run(t, w, withAlternate(c.seen))
		})
	}
}
