package postgresql

import (
	"slices"
	"strings"
)

// change builds the statements that lead to the desired state.
type change struct {
	Want
	owner, database, mark string // quoted
	// newPassword is true if the password has to be set, because the owner cannot log in with it.
	newPassword bool
}

func newChange(w Want) (*change, error) {
	owner, err := Identifier(w.Owner)
	if err != nil {
		return nil, err
	}
	database, err := Identifier(w.Database)
	if err != nil {
		return nil, err
	}
	return &change{Want: w, owner: owner, database: database, mark: literal(w.Mark.String())}, nil
}

// next returns the next statement on the way to the desired state, and what it does. sql is empty if the
// observed state is the desired state.
func (c *change) next(s sight) (sql, does string, err error) {
	if err := c.check(s); err != nil {
		return "", "", err
	}
	if !s.Superuser && !s.Inherits && (s.Role == nil || !s.Role.Held) {
		return "", "", NewError(Denied, "the administrator's role has NOINHERIT, so that it cannot act for the roles that it makes")
	}
	if s.Role == nil {
		sql, err := c.createRole(s)
		return sql, "making the role", err
	}
	if sql, err := c.alterRole(s); sql != "" || err != nil {
		return sql, "putting the role right", err
	}
	if s.Database == nil {
		return c.createDatabase(), "making the database", nil
	}
	return c.alterDatabase(s), "putting the database right", nil
}

// nextOfDeletion returns the next statement on the way to deleting our database and our role. sql is empty if
// neither exists. Roles and databases of others stay.
func (c *change) nextOfDeletion(s sight) (sql, does string, err error) {
	if c.ID != "" && c.ID.server() != s.Server {
		return "", "", c.moved(s)
	}
	mine := s.Role != nil && c.ownsRole(s)
	switch {
	case s.Database != nil && c.ownsDatabase(s) && c.ID != "" && s.id() != c.ID:
		return "", "", NewError(Replaced, "database %q is another one than before, though it bears our mark: its OID on the server is %s, not that of %s", c.Database, s.Database.OID, c.ID)
	case s.Database != nil && c.ownsDatabase(s) && mine && !s.Role.Held && !s.Superuser:
		return c.hold(s), "becoming a member of the role", nil
	case s.Database != nil && c.ownsDatabase(s) && s.Database.Template:
		return c.noTemplate(), "deleting the database", nil
	case s.Database != nil && c.ownsDatabase(s):
		return "DROP DATABASE " + c.database + " WITH (FORCE)", "deleting the database", nil
	case mine:
		return "DROP ROLE " + c.owner, "deleting the role", nil
	}
	return "", "", nil
}

// createRole creates the role and its mark in one transaction.
func (c *change) createRole(s sight) (string, error) {
	secret, err := verifier(c.Password)
	if err != nil {
		return "", err
	}
	sql := "CREATE ROLE " + c.owner + " LOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB PASSWORD " + literal(secret) + "; " + c.markRole()
	if !s.Superuser {
		sql += "; " + c.hold(s)
	}
	return sql, nil
}

// hold makes the administrator a member of the owner, so that it can create and delete databases for the
// owner. From PostgreSQL 16 on, server settings decide on the options that a GRANT does not name.
func (c *change) hold(s sight) string {
	sql := "GRANT " + c.owner + " TO CURRENT_USER"
	if s.Version >= 160000 {
		sql += " WITH INHERIT TRUE, SET TRUE"
	}
	return sql
}

func (c *change) noTemplate() string { return "ALTER DATABASE " + c.database + " IS_TEMPLATE false" }

func (c *change) markRole() string { return "COMMENT ON ROLE " + c.owner + " IS " + c.mark }

// alterRole names only the attributes that differ, because only superusers may name some attributes.
func (c *change) alterRole(s sight) (string, error) {
	var attributes, statements []string
	for attribute, wrong := range map[string]bool{
		"LOGIN": !s.Role.Login, "NOSUPERUSER": s.Role.Superuser, "NOCREATEROLE": s.Role.CreateRole, "NOCREATEDB": s.Role.CreateDatabase,
		"NOREPLICATION": s.Role.Replication, "NOBYPASSRLS": s.Role.BypassRLS, "VALID UNTIL 'infinity'": s.Role.Expires,
	} {
		if wrong {
			attributes = append(attributes, attribute)
		}
	}
	slices.Sort(attributes)
	if c.newPassword {
		secret, err := verifier(c.Password)
		if err != nil {
			return "", err
		}
		attributes = append(attributes, "PASSWORD "+literal(secret))
	}
	if len(attributes) > 0 {
		statements = append(statements, "ALTER ROLE "+c.owner+" "+strings.Join(attributes, " "))
	}
	if s.Role.Mark != c.Mark.String() {
		statements = append(statements, c.markRole())
	}
	if !s.Role.Held && !s.Superuser {
		statements = append(statements, c.hold(s))
	}
	return strings.Join(statements, "; "), nil
}

// createDatabase creates a database that accepts no connections. alterDatabase allows them when it marks the
// database and revokes the privileges of PUBLIC, because CREATE DATABASE cannot run in a transaction. The
// template is template0, which accepts no connections, so that nobody can change it.
func (c *change) createDatabase() string {
	return "CREATE DATABASE " + c.database + " OWNER " + c.owner + " TEMPLATE template0 ALLOW_CONNECTIONS false"
}

func (c *change) alterDatabase(s sight) string {
	var statements []string
	add := func(wrong bool, statement string) {
		if wrong {
			statements = append(statements, statement)
		}
	}
	add(s.Database.Owner != c.Owner, "ALTER DATABASE "+c.database+" OWNER TO "+c.owner)
	add(s.Database.Mark != c.Mark.String(), c.markDatabase())
	add(s.Database.Public, "REVOKE ALL ON DATABASE "+c.database+" FROM PUBLIC")
	add(!s.Database.Granted, "GRANT ALL ON DATABASE "+c.database+" TO "+c.owner)
	add(s.Database.Template, c.noTemplate())
	add(!s.Database.Connectable, "ALTER DATABASE "+c.database+" ALLOW_CONNECTIONS true")
	return strings.Join(statements, "; ")
}

// missing returns the desired extensions that the database lacks.
func (w Want) missing(s sight) []string {
	return slices.DeleteFunc(slices.Clone(w.Extensions), func(name string) bool { return slices.Contains(s.Extensions, name) })
}

// HandOver returns the SQL with which an administrator hands an existing role and database over to the object
// of w.Mark. It returns "" for names that Identifier refuses.
func HandOver(w Want) string {
	c, err := newChange(w)
	if err != nil {
		return ""
	}
	return c.markRole() + "; " + c.markDatabase() + "; ALTER DATABASE " + c.database + " OWNER TO " + c.owner + ";"
}

func (c *change) markDatabase() string { return "COMMENT ON DATABASE " + c.database + " IS " + c.mark }
