package postgresql

import "fmt"

// Before the first rotation, the owner is the login. Then alternate logins take turns. They are members of the owner,
// and their sessions act as the owner, so that objects belong to the owner whichever login creates them. The owner
// never gets its login back, because a session of a former alternate login could change the password of the owner.

// nextOfAlternate returns the next step to an alternate login that is in use. The owner exists.
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
	// The former user of the login may have changed the settings of its sessions.
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

// nextOfOwnership returns the next step to alternate logins that own nothing in the database. A client that leaves the
// role of the owner (SET ROLE NONE or, depending on the version of PostgreSQL, DISCARD ALL) creates objects as its
// login.
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

// desiredAlternate returns the alternate login in use in its desired state, except that it may own objects.
func (c *change) desiredAlternate(owns bool) *seenRole {
	return &seenRole{
		Name: c.Login, Mark: c.Mark.String(), Held: true, Login: true, Inherits: true, Member: true, Acts: true, Owns: owns,
	}
}
