package postgresql

import "fmt"

// formerLogin is a role of ours that clients must not use any more.
type formerLogin struct {
	seenRole
	name string
}

// formers returns the former logins that exist and are ours: the alternate logins first, then the owner.
func (c *change) formers(s sight) (all []formerLogin) {
	for _, role := range c.ownAlternates(s) {
		if role.Name != c.login() {
			all = append(all, formerLogin{role.seenRole, role.Name})
		}
	}
	if c.usesAlternate() && s.Role != nil && c.ownsRole(s) {
		all = append(all, formerLogin{*s.Role, c.Owner})
	}
	return all
}

// former returns the first former login that can log in or has sessions. found is false if there is none.
func (c *change) former(s sight) (first formerLogin, found bool) {
	for _, role := range c.formers(s) {
		if role.Login || role.Sessions {
			return role, true
		}
	}
	return formerLogin{}, false
}

// sessionTimeout is how long the operator waits for the end of a session, in milliseconds.
const sessionTimeout = 250

// nextOfRetirement returns the next step to former logins that cannot log in, have no sessions and own nothing in the
// database. The login ends first, because a user of the login can hold up everything else, and because a session that
// ends before could begin again. The end of a login does not depend on the state of the database, which the user of
// the login can change too.
func (c *change) nextOfRetirement(s sight) (step, error) {
	if c.ID != "" && c.ID.server() != s.Server && s.Database == nil {
		return step{}, c.moved(s)
	}
	role, found := c.former(s)
	if !found {
		if err := c.check(s); err != nil {
			return step{}, err
		}
		return c.nextOfOwnership(s), nil
	}
	if err := c.protects(s, role.name, role.seenRole, true, retire); err != nil {
		return step{}, err
	}
	name, does := quotedRole(role.name), fmt.Sprintf("retiring role %q", role.name)
	switch {
	case role.Login:
		sql, unlocks := "ALTER ROLE "+name+" NOLOGIN PASSWORD NULL", c.unlock(s, role.seenRole, role.name)
		return step{sql: sql, does: does, alters: role.name, unlocks: unlocks}, nil
	case !role.Held && !s.Superuser:
		return step{sql: c.hold(s, name), does: does}, nil
	}
	timeout := ""
	if s.Version >= 140000 {
		timeout = fmt.Sprintf(", %d", sessionTimeout)
	}
	return step{sql: endSessions(role.name, timeout), does: does}, nil
}

// unlock returns the SQL that ends the sessions of a role and does not wait for their end.
func (c *change) unlock(s sight, role seenRole, name string) string {
	sql := endSessions(name, "")
	if !role.Held && !s.Superuser {
		sql = c.hold(s, quotedRole(name)) + "; " + sql
	}
	return sql
}

// ofClient matches the backend_type of the session of a client, which replicates if its role has REPLICATION.
const ofClient = "IN ('client backend', 'walsender')"

// endSessions returns the SQL that ends the sessions of clients as a role.
func endSessions(role, timeout string) string {
	return "SELECT pg_terminate_backend(pid" + timeout + ") FROM pg_stat_activity WHERE usename = " + literal(role) +
		" AND backend_type " + ofClient
}

// afterRetirement returns the state after the step that nextOfRetirement returned for seen.
func (c *change) afterRetirement(seen sight) sight {
	former, found := c.former(seen)
	if !found {
		return c.afterOwnership(seen)
	}
	retired := former.seenRole
	switch {
	case retired.Login:
		retired.Login = false
	case !retired.Held && !seen.Superuser:
		retired.Held = true
	default:
		retired.Sessions = false
	}
	if former.name == c.Owner {
		seen.Role = &retired
		return seen
	}
	alternate := *seen.alternate(former.name)
	alternate.seenRole = retired
	return seen.withAlternate(&alternate)
}

// afterOwnership returns the state after the step that nextOfOwnership returned for seen.
func (c *change) afterOwnership(seen sight) sight {
	for _, role := range c.ownAlternates(seen) {
		if !role.Owns {
			continue
		}
		changed := *role
		if !role.Held && !seen.Superuser {
			changed.Held = true
		} else {
			changed.Owns = false
		}
		return seen.withAlternate(&changed)
	}
	return seen
}
