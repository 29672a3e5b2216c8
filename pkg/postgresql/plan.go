package postgresql

import (
	"fmt"
	"slices"
	"strings"
)

// change builds the statements that lead to the desired state.
type change struct {
	Want
	owner, database, mark string // quoted
	// planned is true if the statements are only shown.
	planned bool
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

// next returns the SQL of the next step to the desired state: one statement, or several in one transaction. sql
// is empty if the role and the database are in their desired state. does describes the step in errors.
func (c *change) next(s sight) (sql, does string, err error) {
	if err := c.check(s); err != nil {
		return "", "", err
	}
	if !s.Superuser && !s.Inherits && (s.Role == nil || !s.Role.Held) {
		return "", "", NewError(Uninherited, "the role of the administrator has the attribute NOINHERIT, so it cannot act for the roles that it creates")
	}
	if s.Role == nil {
		sql, err := c.createRole(s)
		return sql, fmt.Sprintf("creating role %q", c.Owner), err
	}
	if sql, err := c.alterRole(s); sql != "" || err != nil {
		return sql, fmt.Sprintf("updating role %q", c.Owner), err
	}
	if s.Database == nil {
		return c.createDatabase(), fmt.Sprintf("creating database %q", c.Database), nil
	}
	return c.alterDatabase(s), fmt.Sprintf("updating database %q", c.Database), nil
}

// nextOfDeletion returns the SQL of the next step to the deletion of our database and our role. sql is empty if
// neither exists. Other roles and databases stay.
func (c *change) nextOfDeletion(s sight) (sql, does string, err error) {
	if c.ID != "" && c.ID.server() != s.Server {
		return "", "", c.moved(s)
	}
	mine := s.Role != nil && c.ownsRole(s)
	switch {
	case s.Database != nil && c.ownsDatabase(s) && c.ID != "" && s.id() != c.ID:
		return "", "", NewError(Replaced, "database %q has the mark of this ExternalDatabase, but was replaced: its OID on the server is %s, and its recorded identity is %s", c.Database, s.Database.OID, c.ID)
	case s.Database != nil && c.ownsDatabase(s) && mine && !s.Role.Held && !s.Superuser:
		return c.hold(s), fmt.Sprintf("granting role %q to the administrator", c.Owner), nil
	case s.Database != nil && c.ownsDatabase(s) && s.Database.Template:
		return c.noTemplate(), fmt.Sprintf("deleting database %q", c.Database), nil
	case s.Database != nil && c.ownsDatabase(s):
		return "DROP DATABASE " + c.database + " WITH (FORCE)", fmt.Sprintf("deleting database %q", c.Database), nil
	case mine:
		return "DROP ROLE " + c.owner, fmt.Sprintf("deleting role %q", c.Owner), nil
	}
	return "", "", nil
}

// createRole returns the SQL that creates the role with its mark, in one transaction.
func (c *change) createRole(s sight) (string, error) {
	secret, err := c.verifier()
	if err != nil {
		return "", err
	}
	sql := "CREATE ROLE " + c.owner + " LOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB PASSWORD " + literal(secret) + "; " + c.markRole()
	if !s.Superuser {
		sql += "; " + c.hold(s)
	}
	return sql, nil
}

// hold returns the SQL that makes the administrator a member of the owner, so that the administrator can
// create and delete databases for the owner. From PostgreSQL 16 on, it sets both options, because the
// default of INHERIT depends on the administrator.
func (c *change) hold(s sight) string {
	sql := "GRANT " + c.owner + " TO CURRENT_USER"
	if s.Version >= 160000 {
		sql += " WITH INHERIT TRUE, SET TRUE"
	}
	return sql
}

// verifier returns the text that a statement has as the password.
func (c *change) verifier() (string, error) {
	if c.planned {
		return "(changed)", nil
	}
	return verifier(c.Password)
}

func (c *change) noTemplate() string { return "ALTER DATABASE " + c.database + " IS_TEMPLATE false" }

func (c *change) markRole() string { return "COMMENT ON ROLE " + c.owner + " IS " + c.mark }

// alterRole returns the SQL that changes the role, or "" if the role is in its desired state. The SQL names
// only the attributes that differ, because only superusers may name some attributes.
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
		secret, err := c.verifier()
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

// createDatabase returns the SQL that creates a database that accepts no connections. CREATE DATABASE cannot
// run in a transaction, so alterDatabase allows connections when it marks the database and revokes the privileges
// of PUBLIC. The template is template0: it accepts no connections, so nobody can change it.
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
