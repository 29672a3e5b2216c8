//go:build integration

package postgresql_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"windlass.dev/windlass/pkg/postgresql"
)

// as16 creates a database, and returns its name. The schema pg16 of the database simulates the functions of PostgreSQL
// 16 that consider options of memberships. These functions read the memberships from the table pg16.memberships.
func as16(t *testing.T) string {
	t.Helper()
	database := newWant().Database
	do(t, "postgres", "CREATE DATABASE "+quoted(database))
	const head = "CREATE FUNCTION pg16.pg_has_role(%s, privilege text) RETURNS boolean LANGUAGE sql STABLE AS $$ %s $$"
	do(t, database, "CREATE SCHEMA pg16", "GRANT USAGE ON SCHEMA pg16 TO PUBLIC",
		"CREATE TABLE pg16.memberships (member text, role text, inherits boolean, sets boolean)",
		"GRANT SELECT ON pg16.memberships TO PUBLIC",
		`CREATE FUNCTION pg16.current_setting(name text) RETURNS text LANGUAGE sql STABLE AS
			$$ SELECT CASE name WHEN 'server_version_num' THEN '160004' ELSE pg_catalog.current_setting(name) END $$`,
		fmt.Sprintf(head, "who name, what oid", `SELECT who = pg_get_userbyid(what) OR EXISTS (SELECT FROM pg16.memberships
			WHERE member = who AND role = pg_get_userbyid(what)
			AND CASE privilege WHEN 'usage' THEN inherits WHEN 'set' THEN sets ELSE true END)`),
		fmt.Sprintf(head, "who oid, what oid", "SELECT pg16.pg_has_role(pg_get_userbyid(who), what, privilege)"),
		fmt.Sprintf(head, "what oid", "SELECT pg16.pg_has_role(current_user, what, privilege)"))
	return database
}

// carries sends StateQuery as the administrator admin, with path as the search_path, and returns whether the
// administrator has privileges through the owner.
func carries(t *testing.T, database, admin, owner, path string) bool {
	t.Helper()
	conn, err := shared.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range []string{"SET search_path = " + path, "SET SESSION AUTHORIZATION " + quoted(admin)} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	var (
		text string
		seen struct{ Role struct{ Carries bool } }
	)
	row := conn.QueryRow(t.Context(), postgresql.StateQuery, pgx.QueryExecModeExec, owner, database, "{}")
	if err := row.Scan(&text); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &seen); err != nil {
		t.Fatal(err)
	}
	return seen.Role.Carries
}

// TestMembershipWithAdminOptionAloneCarriesNoPrivileges has an administrator who is a member of the owner. The owner is
// a member of a group. The test simulates the options of memberships, which PostgreSQL has from version 16 on.
func TestMembershipWithAdminOptionAloneCarriesNoPrivileges(t *testing.T) {
	t.Parallel()
	const admins, inherits, sets = "false, false", "true, false", "false, true"
	database := as16(t)
	for name, c := range map[string]struct {
		ofAdmin, ofOwner string // the options of the membership of the administrator and of the owner
		carries          bool
	}{
		"the administrator has created the owner": {ofAdmin: admins, ofOwner: inherits},
		"the owner has created the group":         {ofAdmin: inherits, ofOwner: admins},
		"the administrator inherits":              {ofAdmin: inherits, ofOwner: inherits, carries: true},
		"the administrator sets the role":         {ofAdmin: sets, ofOwner: sets, carries: true},
	} {
		t.Run(name, func(t *testing.T) {
			admin, owner, group := newWant().Owner, newWant().Owner, newWant().Owner
			for _, role := range []string{admin, owner, group} {
				do(t, "postgres", "CREATE ROLE "+quoted(role))
			}
			do(t, "postgres", "GRANT "+quoted(group)+" TO "+quoted(owner), "GRANT "+quoted(owner)+" TO "+quoted(admin))
			do(t, database, fmt.Sprintf("INSERT INTO pg16.memberships VALUES ('%s', '%s', %s), ('%s', '%s', %s)",
				admin, owner, c.ofAdmin, owner, group, c.ofOwner))
			if got := carries(t, database, admin, owner, "pg16, pg_catalog"); got != c.carries {
				t.Errorf("on PostgreSQL 16, carries is %t", got)
			}
			if ask(t, "postgres", "select (current_setting('server_version_num')::int < 160000)::text") == "true" &&
				!carries(t, database, admin, owner, "pg_catalog") {
				t.Error("until PostgreSQL 15, the owner carries privileges")
			}
		})
	}
}
