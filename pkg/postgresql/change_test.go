package postgresql

import (
	"slices"
	"strings"
	"testing"
)

const server = "7000000000000000001"

func want() Want {
	return Want{
		Mark: Mark{Namespace: "team", Name: "shop", UID: "uid-1"}, Database: "shop", Owner: "clerk",
		Alternates: []string{"clerk-login1", "clerk-login2"}, Password: "secret",
	}
}

// there returns the desired state as an administrator without SUPERUSER observes it, modified by change, which may be
// nil.
func there(change func(*state)) state {
	mark := want().Mark.String()
	s := state{
		Server: server, Connected: "postgres", Version: 150004, Inherits: true,
		Role:     &seenRole{Name: "clerk", Mark: mark, Held: true, Login: true},
		Database: &seenDatabase{OID: "16384", Owner: "clerk", Mark: mark, Connectable: true, Granted: true},
	}
	if change != nil {
		change(&s)
	}
	return s
}

const (
	theirMark = "windlass.dev/externaldatabase theirs/cart uid-2"
	ourID     = ID(server + "/16384")
)

// nextCase is a test case of change.next, which must return a step with the statement sql, or an error.
type nextCase struct {
	seen        func(*state)
	id          ID
	newPassword bool
	rotates     bool // the change is a rotation
	sql         string
	class       Class
	err         string // the text of the wanted error, if it has no class
}

func (c nextCase) run(t *testing.T, w Want, seen state) {
	t.Helper()
	w.ID = c.id
	change := newChange(w)
	change.newPassword, change.rotates, change.verifier = c.newPassword, c.rotates, "SCRAM"
	next, err := change.next(seen)
	fails := c.class != Other || c.err != ""
	if next.sql != c.sql || ClassOf(err) != c.class || (err != nil) != fails || c.err != "" && err.Error() != c.err {
		t.Errorf("wanted %s and class %s\ngot    %s and %v", c.sql, c.class, next.sql, err)
	}
	if next.sql != "" && next.does == "" {
		t.Errorf("%q has no description", next.sql)
	}
	if next.setsPassword != strings.Contains(next.sql, "SCRAM") || strings.Contains(next.sql, "secret") {
		t.Errorf("setsPassword is %t for %s", next.setsPassword, next.sql)
	}
}

func TestNextStatement(t *testing.T) {
	const markRole, markDatabase = `COMMENT ON ROLE "clerk" IS 'windlass.dev/externaldatabase ` +
		`team/shop uid-1'`, `COMMENT ON DATABASE "shop" IS 'windlass.dev/externaldatabase team/shop uid-1'`
	for name, c := range map[string]nextCase{
		"nothing is left to do": {},
		"the role is made, and held by an administrator who needs that": {
			seen: func(s *state) { s.Role, s.Database = nil, nil },
			sql: `CREATE ROLE "clerk" LOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB PASSWORD 'SCRAM'; ` + markRole +
				`; GRANT "clerk" TO CURRENT_USER`,
		},
		"a superuser need not hold it": {
			seen: func(s *state) { s.Role, s.Database, s.Superuser = nil, nil, true },
			sql:  `CREATE ROLE "clerk" LOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB PASSWORD 'SCRAM'; ` + markRole,
		},
		"then the database, which takes nobody": {
			seen: func(s *state) { s.Database = nil },
			sql:  `CREATE DATABASE "shop" OWNER "clerk" TEMPLATE template0 ALLOW_CONNECTIONS false`,
		},
		"then it is marked and opened": {
			seen: func(s *state) { s.Database.Mark, s.Database.Connectable, s.Database.Public = "", false, true },
			sql:  markDatabase + `; REVOKE ALL ON DATABASE "shop" FROM PUBLIC; ALTER DATABASE "shop" ALLOW_CONNECTIONS true`,
		},
		"a role that is dropped is made again for its database": {
			id: ourID, seen: func(s *state) { s.Role, s.Database.Owner, s.Superuser = nil, "postgres", true },
			sql: `CREATE ROLE "clerk" LOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB PASSWORD 'SCRAM'; ` + markRole,
		},
		"a password is set": {newPassword: true, sql: `ALTER ROLE "clerk" PASSWORD 'SCRAM'`},
		"only what is wrong is named": {
			seen: func(s *state) {
				s.Role.Login = false
				s.Role.CreateDatabase = true
			}, sql: `ALTER ROLE "clerk" LOGIN NOCREATEDB`,
		},
		"nothing of a role and a database that were handed over": {
			newPassword: true, seen: func(s *state) { handedOver(s) },
		},
		"not the role that owns a new database": {
			seen: func(s *state) { handedOver(s); s.Role.Held, s.Database = false, nil }, sql: `GRANT "clerk" TO CURRENT_USER`,
		},
		"the mark of a role that was handed over with its database": {
			id: ourID, seen: func(s *state) { handedOver(s); s.Role.Mark = "" },
			sql: `COMMENT ON ROLE "clerk" IS 'windlass.dev/externaldatabase team/shop uid-1 handed-over'`,
		},
		"a role that is held as the server's settings have it": {
			seen: func(s *state) {
				s.Role.Held = false
				s.Version = 160000
			}, sql: `GRANT "clerk" TO CURRENT_USER WITH INHERIT TRUE, SET TRUE`,
		},
		"an administrator who cannot act for others": {
			seen: func(s *state) { s.Role, s.Database, s.Inherits = nil, nil, false }, class: Uninherited,
		},
		"an owner who cannot act for others": {seen: func(s *state) { s.Inherits = false }},
		"a mark that somebody has written onto a database of theirs": {
			seen: func(s *state) { s.Database.Owner = "theirs" }, class: Taken,
		},
		"the same, where there is no role yet": {
			seen: func(s *state) { s.Role, s.Database.Owner = nil, "theirs" }, class: Taken,
		},
		"what was granted and owned": {
			id: ourID,
			seen: func(s *state) {
				s.Database.Owner, s.Database.Public, s.Database.Granted, s.Database.Template = "postgres", true, false, true
			},
			sql: `ALTER DATABASE "shop" OWNER TO "clerk"; REVOKE ALL ON DATABASE "shop" FROM PUBLIC; GRANT ALL ON ` +
				`DATABASE "shop" TO "clerk"; ALTER DATABASE "shop" IS_TEMPLATE false`,
		},
		"a name of earlier in the mark": {
			seen: func(s *state) { s.Database.Mark = strings.Replace(s.Database.Mark, "team", "old", 1) }, sql: markDatabase,
		},
		"a server that was upgraded keeps the marks": {id: "7000000000000000002/5"},
		"somebody's role": {seen: func(s *state) { s.Role.Mark, s.Database = theirMark, nil }, class: Taken},
		"nobody's role":   {seen: func(s *state) { s.Role.Mark, s.Database = "", nil }, class: Taken},
		"nobody's role, before anything was made": {seen: func(s *state) { s.Role.Mark = "" }, class: Taken},
		"somebody's database":                     {seen: func(s *state) { s.Database.Mark = theirMark }, class: Taken},
		"ours, though its owner wrote another mark": {
			id: ourID, seen: func(s *state) { s.Database.Mark = theirMark }, sql: markDatabase,
		},
		"nobody's database, though our role owns it": {seen: func(s *state) { s.Database.Mark = "" }, class: Taken},
		"nobody's, that was made after ours": {
			id: server + "/1", seen: func(s *state) { s.Database.Mark = "" }, class: Taken,
		},
		"nobody's database, half made, of another's": {
			seen: func(s *state) { s.Database.Mark, s.Database.Connectable, s.Database.Owner = "", false, "x" }, class: Taken,
		},
		"nobody's database where there is no role": {
			seen: func(s *state) { s.Role, s.Database.Mark = nil, "" }, class: Taken,
		},
		"another server, on which there is nothing": {
			id: "7000000000000000002/5", seen: func(s *state) { s.Role, s.Database = nil, nil }, class: Replaced,
		},
		"another server, on which there is our role": {
			id: "7000000000000000002/5", seen: func(s *state) { s.Database = nil }, class: Replaced,
		},
		"another server, on which there is another's": {
			id: "7000000000000000002/5", seen: func(s *state) { s.Role.Mark = theirMark }, class: Taken,
		},
	} {
		t.Run(name, func(t *testing.T) { c.run(t, want(), there(c.seen)) })
	}
}

func TestStateHasOnlyRolesThatWereAskedFor(t *testing.T) {
	seen := withAlternate(func(s *state) {
		s.Role.Name = "postgres"
		s.Alternates = append(s.Alternates, &seenRole{Name: "theirs"}, nil)
	}).of(want())
	var names []string
	for _, role := range seen.roles() {
		names = append(names, role.Name)
	}
	if !slices.Equal(names, []string{"clerk-login1", "clerk"}) {
		t.Errorf("the roles are %q", names)
	}
}
