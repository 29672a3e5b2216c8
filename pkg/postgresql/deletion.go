package postgresql

import "fmt"

// nextOfDeletion returns the next step of the deletion of our database and our roles. Other roles and databases stay.
func (c *change) nextOfDeletion(s state) (step, error) {
	if c.ID != "" && c.ID.server() != s.Server {
		return step{}, c.moved(s)
	}
	roles := c.ownRoles(s)
	for _, role := range roles {
		if err := c.protects(s, role, retire); err != nil {
			return step{}, err
		}
	}
	if s.Database != nil && c.ownsDatabase(s) {
		return c.nextOfDatabaseDeletion(s, roles)
	}
	if len(roles) == 0 {
		return step{}, nil
	}
	role := roles[0]
	return step{
		sql: "DROP ROLE " + quoted(role.Name), does: fmt.Sprintf("deleting role %q", role.Name),
		then: func(s *state) { s.drop(role) },
	}, nil
}

// nextOfDatabaseDeletion returns the next step of the deletion of our database. First, an administrator without
// SUPERUSER becomes a member of our roles, to be able to end their sessions.
func (c *change) nextOfDatabaseDeletion(s state, roles []*seenRole) (step, error) {
	if c.ID != "" && s.id() != c.ID {
		return step{}, NewError(Replaced, "database %q has the mark of this ExternalDatabase, but was replaced: its "+
			"OID on the server is %s, and its recorded identity is %s", c.Database, s.Database.OID, c.ID)
	}
	for _, role := range roles {
		if !role.Held && !s.Superuser {
			return c.join(s, role, fmt.Sprintf("granting role %q to the administrator", role.Name)), nil
		}
	}
	next := step{
		sql: "DROP DATABASE " + c.database + " WITH (FORCE)", does: fmt.Sprintf("deleting database %q", c.Database),
		then: func(s *state) { s.Database = nil },
	}
	if s.Database.Template {
		next.sql, next.then = c.noTemplate(), func(s *state) { s.Database.Template = false }
	}
	return next, nil
}
