package postgresql

import "fmt"

// Before the first rotation, clients log in as the owner. From then on, they log in as an alternate login, and each
// rotation changes to another one. Alternate logins are members of the owner, and their sessions act as the owner, so
// that the owner owns all objects that they create. The owner never becomes the login again, because a session of a
// previous alternate login could have changed the password of the owner.

// nextOfAlternate returns the next step that brings the alternate login c.Login to its desired state. The owner must
// exist.
func (c *change) nextOfAlternate(s state) step {
	login, seen := quoted(c.Login), s.role(c.Login)
	if seen == nil {
		all := parts{
			"CREATE ROLE " + login + " LOGIN INHERIT NOSUPERUSER NOCREATEROLE NOCREATEDB PASSWORD " + literal(c.verifier),
			c.markRole(login),
		}
		all.add(!s.Superuser, c.hold(s, login))
		all = append(all, grant(s, c.owner, login), c.act())
		return step{
			sql: all.sql(), does: fmt.Sprintf("creating role %q", c.Login), setsPassword: true,
			then: func(s *state) { s.Alternates = append(s.Alternates, c.desiredAlternate(false)) },
		}
	}
	attributes := c.attributes(seen, true)
	if !seen.Inherits {
		attributes += " INHERIT"
	}
	var all parts
	// A previous user of the login may have changed the settings of the login's sessions.
	resets := c.rotates && c.newPassword
	all.add(resets, "ALTER ROLE "+login+" RESET ALL")
	all.add(resets && s.Database != nil, "ALTER ROLE "+login+" IN DATABASE "+c.database+" RESET ALL")
	all.add(attributes != "", "ALTER ROLE "+login+attributes)
	all.add(seen.Mark != c.Mark.String(), c.markRole(login))
	all.add(!seen.Member, grant(s, c.owner, login))
	all.add(!seen.Acts || resets, c.act())
	all.add(!seen.Acts && !resets && s.Database != nil, "ALTER ROLE "+login+" IN DATABASE "+c.database+" RESET role")
	next := step{
		sql: all.sql(), does: fmt.Sprintf("updating role %q", c.Login),
		setsPassword: c.newPassword, alters: c.Login, then: func(*state) { *seen = *c.desiredAlternate(seen.Owns) },
	}
	if c.rotates {
		next.unlocks = c.unlock(s, seen)
	}
	return next
}

// act returns the SQL that makes the sessions of the alternate login in use act as the owner. The login must be a
// member of the owner.
func (c *change) act() string {
	return "ALTER ROLE " + quoted(c.Login) + " SET role = " + literal(c.Owner)
}

// nextOfOwnership returns the next step that gives the objects of an alternate login in the database to the owner.
// After SET ROLE NONE or, in some versions of PostgreSQL, after DISCARD ALL, a session does not act as the owner any
// more. The alternate login then owns the objects that the session creates.
func (c *change) nextOfOwnership(s state) step {
	for _, role := range c.ownRoles(s) {
		if !role.Owns || role == s.Role {
			continue
		}
		does := fmt.Sprintf("giving the objects of role %q to role %q", role.Name, c.Owner)
		if !role.Held && !s.Superuser {
			return c.join(s, role, does)
		}
		return step{
			sql:  "SET LOCAL ROLE NONE; REASSIGN OWNED BY " + quoted(role.Name) + " TO " + c.owner,
			does: does, inside: true, then: func(*state) { role.Owns = false },
		}
	}
	return step{}
}

// desiredAlternate returns the desired state of the alternate login in use. owns says whether the login owns objects.
func (c *change) desiredAlternate(owns bool) *seenRole {
	return &seenRole{
		Name: c.Login, Mark: c.Mark.String(), Held: true, Login: true, Inherits: true, Member: true, Acts: true, Owns: owns,
	}
}
