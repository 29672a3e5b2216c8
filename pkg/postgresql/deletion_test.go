package postgresql

import (
	"strings"
	"testing"
)

func TestNextStatementOfDeletion(t *testing.T) {
	const dropDatabase, dropRole = `DROP DATABASE "shop" WITH (FORCE)`, `DROP ROLE "clerk"`
	for name, c := range map[string]struct {
		seen  func(*state)
		id    ID
		sql   string
		class Class
	}{
		"first the database":                           {id: ourID, sql: dropDatabase},
		"database without a recorded ID is dropped":    {sql: dropDatabase},
		"a half-made one":                              {seen: func(s *state) { s.Database.Mark, s.Database.Connectable = "", false }, sql: dropDatabase},
		"one whose mark was taken away":                {id: ourID, seen: func(s *state) { s.Database.Mark = "" }, sql: dropDatabase},
		"a role that must be held for that":            {id: ourID, seen: func(s *state) { s.Role.Held = false }, sql: `GRANT "clerk" TO CURRENT_USER`},
		"a superuser need not hold it":                 {id: ourID, seen: func(s *state) { s.Role.Held, s.Superuser = false, true }, sql: dropDatabase},
		"a template is none before":                    {id: ourID, seen: func(s *state) { s.Database.Template = true }, sql: `ALTER DATABASE "shop" IS_TEMPLATE false`},
		"then the role":                                {id: ourID, seen: func(s *state) { s.Database = nil }, sql: dropRole},
		"then nothing":                                 {id: ourID, seen: func(s *state) { s.Role, s.Database = nil, nil }},
		"not somebody's database":                      {id: ourID, seen: func(s *state) { s.Database.Mark, s.Role = theirMark, nil }},
		"not nobody's database":                        {seen: func(s *state) { s.Database.Mark, s.Role = "", nil }},
		"not somebody's role":                          {id: ourID, seen: func(s *state) { s.Database, s.Role.Mark = nil, theirMark }},
		"not nobody's role":                            {seen: func(s *state) { s.Database, s.Role.Mark = nil, "" }},
		"nothing of somebody else's":                   {seen: func(s *state) { s.Database.Mark, s.Role.Mark = theirMark, theirMark }},
		"our role, beside somebody's database":         {seen: func(s *state) { s.Database.Mark = theirMark }, sql: dropRole},
		"our database, whose role was dropped":         {id: ourID, seen: func(s *state) { s.Role = nil }, sql: dropDatabase},
		"another database, though it bears our mark":   {id: server + "/1", class: Replaced},
		"on another server, though it bears our mark":  {id: "7000000000000000002/16384", class: Replaced},
		"on another server, where there is nothing":    {id: "7000000000000000002/16384", seen: func(s *state) { s.Role, s.Database = nil, nil }, class: Replaced},
		"another database without a mark, and our own": {id: server + "/1", seen: func(s *state) { s.Database.Mark = "" }, sql: dropRole},
	} {
		t.Run(name, func(t *testing.T) {
			w := want()
			w.ID = c.id
			change, err := newChange(w)
			if err != nil {
				t.Fatal(err)
			}
			next, err := change.nextOfDeletion(there(c.seen))
			sql := next.sql
			if sql != c.sql || ClassOf(err) != c.class || (err == nil) != (c.class == Other) {
				t.Errorf("wanted %s and class %s\ngot    %s and %v", c.sql, c.class, sql, err)
			}
		})
	}
}

func TestDeletionDropsAlternateLogin(t *testing.T) {
	for name, c := range map[string]struct {
		seen func(*state)
		sql  []string
	}{
		"after the database and before the owner": {sql: []string{`DROP DATABASE "shop" WITH (FORCE)`, `DROP ROLE "clerk-login1"`, `DROP ROLE "clerk"`}},
		"not a role of another object": {
			seen: func(s *state) { s.Alternates[0].Mark = theirMark }, sql: []string{`DROP DATABASE "shop" WITH (FORCE)`, `DROP ROLE "clerk"`}},
		"not a role without a mark": {
			seen: func(s *state) { s.Alternates[0].Mark = "" }, sql: []string{`DROP DATABASE "shop" WITH (FORCE)`, `DROP ROLE "clerk"`}},
		"both of them": {
			seen: func(s *state) {
				second := *s.Alternates[0]
				second.Name = "clerk-login2"
				s.Alternates = append(s.Alternates, &second)
			}, sql: []string{`DROP DATABASE "shop" WITH (FORCE)`, `DROP ROLE "clerk-login1"`, `DROP ROLE "clerk-login2"`, `DROP ROLE "clerk"`},
		},
		"a role that must be held before": {
			seen: unheld, sql: []string{`GRANT "clerk-login1" TO CURRENT_USER`, `DROP DATABASE "shop" WITH (FORCE)`, `DROP ROLE "clerk-login1"`, `DROP ROLE "clerk"`},
		},
		"although the owner was dropped": {seen: func(s *state) { s.Role, s.Database = nil, nil }, sql: []string{`DROP ROLE "clerk-login1"`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := want()
			w.ID = ourID
			change, err := newChange(w)
			if err != nil {
				t.Fatal(err)
			}
			seen := withAlternate(c.seen)
			if got := planned(t, change, change.nextOfDeletion, &seen); got != strings.Join(c.sql, "\n") {
				t.Errorf("wanted %q\ngot    %s", c.sql, got)
			}
		})
	}
}
