package postgresql

import "testing"

func TestDeletionDropsWhatIsOurs(t *testing.T) {
	const (
		dropDatabase  = `DROP DATABASE "shop" WITH (FORCE)`
		dropRole      = `DROP ROLE "clerk"`
		dropAlternate = `DROP ROLE "clerk-login1"`
	)
	const both, all = dropDatabase + "\n" + dropRole, dropDatabase + "\n" + dropAlternate + "\n" + dropRole
	for name, c := range map[string]struct {
		seen      func(*state)
		alternate bool // an alternate login exists
		id        ID
		sql       string // one statement on each line
		class     Class
	}{
		"the database and the role":                 {id: ourID, sql: both},
		"database without a recorded ID is dropped": {sql: both},
		"a half-made one": {
			seen: func(s *state) { s.Database.Mark, s.Database.Connectable = "", false }, sql: both,
		},
		"one whose mark was taken away": {id: ourID, seen: func(s *state) { s.Database.Mark = "" }, sql: both},
		"a role that must be held for that": {
			id: ourID, seen: func(s *state) { s.Role.Held = false }, sql: `GRANT "clerk" TO CURRENT_USER` + "\n" + both,
		},
		"a superuser need not hold it": {
			id: ourID, seen: func(s *state) { s.Role.Held, s.Superuser = false, true }, sql: both,
		},
		"a template is none before": {
			id: ourID, seen: func(s *state) { s.Database.Template = true },
			sql: `ALTER DATABASE "shop" IS_TEMPLATE false` + "\n" + both,
		},
		"the role, after the database": {id: ourID, seen: func(s *state) { s.Database = nil }, sql: dropRole},
		"nothing, after both":          {id: ourID, seen: func(s *state) { s.Role, s.Database = nil, nil }},
		"not somebody's database": {
			id: ourID, seen: func(s *state) { s.Database.Mark, s.Role = theirMark, nil },
		},
		"not nobody's database": {seen: func(s *state) { s.Database.Mark, s.Role = "", nil }},
		"not somebody's role": {
			id: ourID, seen: func(s *state) { s.Database, s.Role.Mark = nil, theirMark },
		},
		"not nobody's role": {seen: func(s *state) { s.Database, s.Role.Mark = nil, "" }},
		"nothing of somebody else's": {
			seen: func(s *state) { s.Database.Mark, s.Role.Mark = theirMark, theirMark },
		},
		"our role, beside somebody's database":        {seen: func(s *state) { s.Database.Mark = theirMark }, sql: dropRole},
		"our database, whose role was dropped":        {id: ourID, seen: func(s *state) { s.Role = nil }, sql: dropDatabase},
		"another database, though it bears our mark":  {id: server + "/1", class: Replaced},
		"on another server, though it bears our mark": {id: "7000000000000000002/16384", class: Replaced},
		"on another server, where there is nothing": {
			id: "7000000000000000002/16384", seen: func(s *state) { s.Role, s.Database = nil, nil }, class: Replaced,
		},
		"another database without a mark, and our own": {
			id: server + "/1", seen: func(s *state) { s.Database.Mark = "" }, sql: dropRole,
		},

		"an alternate login before the owner": {id: ourID, alternate: true, sql: all},
		"not an alternate login of another object": {
			id: ourID, alternate: true, seen: func(s *state) { s.Alternates[0].Mark = theirMark }, sql: both,
		},
		"not an alternate login without a mark": {
			id: ourID, alternate: true, seen: func(s *state) { s.Alternates[0].Mark = "" }, sql: both,
		},
		"both alternate logins": {
			id: ourID, alternate: true, seen: func(s *state) {
				second := *s.Alternates[0]
				second.Name = "clerk-login2"
				s.Alternates = append(s.Alternates, &second)
			}, sql: dropDatabase + "\n" + dropAlternate + "\n" + `DROP ROLE "clerk-login2"` + "\n" + dropRole,
		},
		"an alternate login that must be held before": {
			id: ourID, alternate: true, seen: unheld, sql: `GRANT "clerk-login1" TO CURRENT_USER` + "\n" + all,
		},
		"an alternate login whose owner was dropped": {
			id: ourID, alternate: true, seen: func(s *state) { s.Role, s.Database = nil, nil }, sql: dropAlternate,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := want()
			w.ID = c.id
			change := newChange(w)
			in := there
			if c.alternate {
				in = withAlternate
			}
			seen := in(c.seen)
			if _, err := change.nextOfDeletion(seen); c.class != Other {
				if ClassOf(err) != c.class {
					t.Errorf("wanted class %s, got %v", c.class, err)
				}
			} else if sql := planned(t, change, change.nextOfDeletion, &seen); sql != c.sql {
				t.Errorf("wanted %s\ngot    %s", c.sql, sql)
			}
		})
	}
}
