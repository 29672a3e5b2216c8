package postgresql

import (
	"strings"
	"testing"
)

// handedOver changes a state as if the role and the database were handed over with privileges that are not the desired
// ones.
func handedOver(s *state) {
	mark := want().desiredMark(true)
	s.Role.Mark, s.Role.Login, s.Role.CreateDatabase, s.Role.Expires, s.Role.Held = mark, false, true, true, false
	s.Database.Mark, s.Database.Public, s.Database.Granted, s.Database.Template = mark, true, false, true
}

func TestConflictProposesHarmlessStatements(t *testing.T) {
	const role, database = `COMMENT ON ROLE "o""wner" IS 'windlass.dev/externaldatabase team/shop uid-1 ` +
		`handed-over'`, `COMMENT ON DATABASE "sh""op" IS 'windlass.dev/externaldatabase team/shop uid-1 handed-over'`
	foreign := func(s *state) {
		s.Role.Mark, s.Database.Mark, s.Database.Owner, s.Database.Ordinary = "", "", `o"wner`, true
	}
	for name, c := range map[string]struct {
		change    func(*state)
		alternate bool // an alternate login is in use
		want      Conflict
	}{
		"a role and its database": {
			change: func(*state) {}, want: Conflict{Role: true, Database: true, Statements: role + "; " + database + ";"},
		},
		"a role without a database": {
			change: func(s *state) { s.Database = nil }, want: Conflict{Role: true, Statements: role + ";"},
		},
		"a database of our role": {
			change: func(s *state) { s.Role.Mark = want().Mark.String() }, want: Conflict{
				Database: true, Statements: database + ";",
			},
		},
		"a database that a superuser has restored": {
			change: func(s *state) {
				s.Role.Mark = want().Mark.String()
				s.Database.Owner = "postgres"
				s.Database.Ordinary = false
				s.Database.OfSuperuser = true
			},
			want: Conflict{Database: true, Statements: `ALTER DATABASE "sh""op" OWNER TO "o""wner"; ` + database + ";"},
		},
		"the database of a superuser beside a role of others": {
			change: func(s *state) {
				s.Database.Owner, s.Database.Ordinary, s.Database.OfSuperuser = "postgres", false, true
			},
			want: Conflict{Role: true, Database: true},
		},
		"the database of another role": {
			change: func(s *state) { s.Database.Owner = "legacy" }, want: Conflict{
				Role: true, Database: true, DatabaseOwner: "legacy",
			},
		},
		"the database of a role, and no owner": {
			change: func(s *state) { s.Role, s.Database.Owner = nil, "legacy" }, want: Conflict{
				Database: true, DatabaseOwner: "legacy",
			},
		},
		"an alternate login of others, in use": {
			alternate: true, change: ours, want: Conflict{
				Role: true, Statements: `COMMENT ON ROLE "clerk-login1" IS 'windlass.dev/externaldatabase team/shop uid-1';`,
			},
		},
		"everything is in use": {
			alternate: true, change: func(*state) {}, want: Conflict{
				Role: true, Database: true, Statements: role + "; " + database +
					`; COMMENT ON ROLE "clerk-login1" IS 'windlass.dev/externaldatabase team/shop uid-1';`,
			},
		},
		"our role and database are no conflict":   {change: ours},
		"no role and no database are no conflict": {change: func(s *state) { s.Role, s.Database = nil, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			w := want()
			w.Owner, w.Database = `o"wner`, `sh"op`
			if c.alternate {
				w.Login = w.Alternates[0]
			}
			s := withAlternate(foreign)
			s.Alternates[0].Mark, s.Alternates[0].Acts = "", false
			c.change(&s)
			if got := w.conflict(s); got != c.want {
				t.Errorf("wanted %+v\ngot    %+v", c.want, got)
			}
		})
	}
}

// ours sets our mark on the role and on the database.
func ours(s *state) { s.Role.Mark, s.Database.Mark = want().Mark.String(), want().Mark.String() }

func TestAdministratorIsNeverOwner(t *testing.T) {
	for name, change := range map[string]func(*seenRole){
		"a superuser":                        func(r *seenRole) { r.Superuser = true },
		"a role with REPLICATION":            func(r *seenRole) { r.Replication = true },
		"a role with BYPASSRLS":              func(r *seenRole) { r.BypassRLS = true },
		"a role of the session":              func(r *seenRole) { r.Session = true },
		"a role that initdb has created":     func(r *seenRole) { r.System = true },
		"a role with CREATEROLE":             func(r *seenRole) { r.CreateRole = true },
		"a member of a superuser":            func(r *seenRole) { r.Rises = true },
		"a role that an administrator needs": func(r *seenRole) { r.Carries = true },
	} {
		t.Run(name, func(t *testing.T) {
			c := newChange(want())
			_, err := c.next(there(func(s *state) { s.Role.Mark, s.Database.Mark = "", ""; change(s.Role) }))
			if conflict := ConflictOf(err); ClassOf(err) != Protected || conflict != (Conflict{Role: true, Database: true}) {
				t.Errorf("a role of others: %v of class %s, %+v", err, ClassOf(err), conflict)
			}
			c.Login, c.rotates, c.newPassword = c.Alternates[0], true, true
			next, err := c.next(withAlternate(func(s *state) {
				s.Alternates[0].Mark, s.Alternates[0].Acts = "", false
				change(s.Alternates[0])
			}))
			if ClassOf(err) != Protected || next.sql != "" || !strings.Contains(err.Error(), `"clerk-login1"`) {
				t.Errorf("an alternate login: %q, %v", next.sql, err)
			}
		})
	}
}
