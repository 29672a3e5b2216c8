package postgresql

import (
	"fmt"
	"strings"
)

// change builds the statements that lead to the desired state.
type change struct {
	Want
	owner, database, mark string // quoted
	// verifier is the text that statements contain as the password. It is empty until the change is executed.
	verifier string
	// newPassword is true if a step must set the password of the login, because the login cannot log in with it.
	newPassword bool
	// rotates is true if clients do not use the login yet. Such a change always sets the password of the login, and never
	// creates the owner.
	rotates bool
}

func newChange(w Want) *change {
	return &change{Want: w, owner: quoted(w.Owner), database: quoted(w.Database), mark: literal(w.Mark.String())}
}

// next returns the next step to the desired state. It does not retire previous logins: see nextOfRetirement.
func (c *change) next(s state) (step, error) {
	if err := c.check(s); err != nil {
		return step{}, err
	}
	if !s.Superuser && !s.Inherits && (s.Role == nil || !s.Role.Held) {
		return step{}, NewError(Uninherited, "the role of the administrator has the attribute NOINHERIT, so the "+
			"administrator cannot act for the roles that it creates")
	}
	switch {
	case (c.ID != "" || c.rotates) && s.Database == nil: // the database was created before
		return step{}, fmt.Errorf("database %q does not exist any more", c.Database)
	case c.rotates && s.Role == nil:
		return step{}, fmt.Errorf("role %q does not exist any more", c.Owner)
	}
	if c.rotates { // the login in use cannot block a rotation
		return c.nextOfAlternate(s), nil
	}
	hasRole := func(s *state) { s.Role = c.desiredRole(*s) }
	if s.Role == nil {
		return step{
			sql: c.createRole(s), does: fmt.Sprintf("creating role %q", c.Owner), setsPassword: !c.usesAlternate(),
			then: hasRole,
		}, nil
	}
	if sql := c.alterRole(s); sql != "" {
		sets := !c.usesAlternate() && c.newPassword && !c.keepsRole(s)
		return step{
			sql: sql, does: fmt.Sprintf("updating role %q", c.Owner), setsPassword: sets, alters: c.Owner, then: hasRole,
		}, nil
	}
	if c.usesAlternate() {
		if next := c.nextOfAlternate(s); next.sql != "" {
			return next, nil
		}
	}
	if s.Database == nil {
		return step{sql: c.createDatabase(), does: fmt.Sprintf("creating database %q", c.Database), then: func(s *state) {
			s.Database = &seenDatabase{OID: plannedOID, Owner: c.Owner, Public: true, Granted: true}
			s.Extensions = nil // template0 has none that an ExternalDatabase lists
		}}, nil
	}
	if sql := c.alterDatabase(s); sql != "" {
		return step{sql: sql, does: fmt.Sprintf("updating database %q", c.Database), then: func(s *state) {
			s.Database = c.desiredDatabase(*s.Database)
		}}, nil
	}
	return c.nextOfOwnership(s), nil
}

// createRole returns the SQL that creates the owner with its mark, in one transaction. If an alternate login is in use,
// the owner cannot log in.
func (c *change) createRole(s state) string {
	const attributes = " NOSUPERUSER NOCREATEROLE NOCREATEDB"
	login := " NOLOGIN" + attributes
	if !c.usesAlternate() {
		login = " LOGIN" + attributes + " PASSWORD " + literal(c.verifier)
	}
	all := parts{"CREATE ROLE " + c.owner + login, c.markRole(c.owner)}
	all.add(!s.Superuser, c.hold(s, c.owner))
	return all.sql()
}

// hold returns the SQL that makes the administrator a member of a role. role is a quoted name. A member can create and
// delete databases for the role, and end its sessions.
func (c *change) hold(s state, role string) string { return grant(s, role, "CURRENT_USER") }

// join returns the step in which the administrator becomes a member of a role.
func (c *change) join(s state, role *seenRole, does string) step {
	return step{sql: c.hold(s, quoted(role.Name)), does: does, then: func(*state) { role.Held = true }}
}

// grant returns the SQL that lets a member act as a role. role is a quoted name, and member is a quoted name or
// CURRENT_USER. From PostgreSQL 16 on, it sets both options, because the default of INHERIT depends on the member.
func grant(s state, role, member string) string {
	sql := "GRANT " + role + " TO " + member
	if s.Version >= 160000 {
		sql += " WITH INHERIT TRUE, SET TRUE"
	}
	return sql
}

func (c *change) noTemplate() string { return "ALTER DATABASE " + c.database + " IS_TEMPLATE false" }

// markRole returns the SQL that marks a role. role is a quoted name.
func (c *change) markRole(role string) string { return "COMMENT ON ROLE " + role + " IS " + c.mark }

// alterRole returns the SQL that changes the owner, or "" if it is in its desired state. If an alternate login is in
// use, alterRole does not decide whether the owner can log in: see nextOfRetirement.
func (c *change) alterRole(s state) string {
	var all parts
	kept := c.keepsRole(s)
	attributes, mark := c.attributes(s.Role, !c.usesAlternate()), c.desiredMark(kept)
	all.add(attributes != "" && !kept, "ALTER ROLE "+c.owner+attributes)
	all.add(s.Role.Mark != mark, "COMMENT ON ROLE "+c.owner+" IS "+literal(mark))
	changesDatabase := s.Database == nil || c.alterDatabase(s) != ""
	all.add(!s.Role.Held && !s.Superuser && (!kept || changesDatabase), c.hold(s, c.owner))
	return all.sql()
}

// attributes returns the attributes of a role that differ from the desired ones. It names no attribute that only
// superusers may name: check rejects a superuser, and an administrator of the server decides about REPLICATION and
// BYPASSRLS. If logsIn is true, the role is the login.
func (c *change) attributes(role *seenRole, logsIn bool) string {
	var all parts
	all.add(logsIn && !role.Login, " LOGIN")
	all.add(role.CreateDatabase, " NOCREATEDB")
	all.add(role.CreateRole, " NOCREATEROLE")
	all.add(logsIn && role.Expires, " VALID UNTIL 'infinity'")
	all.add(logsIn && c.newPassword, " PASSWORD "+literal(c.verifier))
	return strings.Join(all, "")
}

// createDatabase returns the SQL that creates a database that accepts no connections. CREATE DATABASE cannot run in a
// transaction, so alterDatabase allows connections when it marks the database and revokes the privileges of PUBLIC. The
// template is template0, which no client can change, because it accepts no connections.
func (c *change) createDatabase() string {
	return "CREATE DATABASE " + c.database + " OWNER " + c.owner + " TEMPLATE template0 ALLOW_CONNECTIONS false"
}

func (c *change) alterDatabase(s state) string {
	var all parts
	kept := c.handedOver(s.Database.Mark)
	mark := c.desiredMark(kept)
	all.add(s.Database.Owner != c.Owner, c.giveDatabase())
	all.add(s.Database.Mark != mark, "COMMENT ON DATABASE "+c.database+" IS "+literal(mark))
	all.add(s.Database.Public && !kept, "REVOKE ALL ON DATABASE "+c.database+" FROM PUBLIC")
	all.add(!s.Database.Granted && !kept, "GRANT ALL ON DATABASE "+c.database+" TO "+c.owner)
	all.add(s.Database.Template && !kept, c.noTemplate())
	all.add(!s.Database.Connectable, "ALTER DATABASE "+c.database+" ALLOW_CONNECTIONS true")
	all.add(s.Database.Limited, "ALTER DATABASE "+c.database+" CONNECTION LIMIT -1")
	return all.sql()
}

// giveDatabase returns the SQL that makes our role the owner of the database.
func (c *change) giveDatabase() string {
	return "ALTER DATABASE " + c.database + " OWNER TO " + c.owner
}
