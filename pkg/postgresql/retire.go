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
// database. A session ends after the role has lost its login, so that no client logs in again.
func (c *change) nextOfRetirement(s sight) (step, error) {
	if err := c.check(s); err != nil {
		return step{}, err
	}
	role, found := c.former(s)
	if !found {
		return c.nextOfOwnership(s), nil
	}
	does := fmt.Sprintf("retiring role %q", role.name)
	switch {
	case !role.Held && !s.Superuser:
		return step{sql: c.hold(s, quotedRole(role.name)), does: does}, nil
	case role.Login:
		return step{sql: "ALTER ROLE " + quotedRole(role.name) + " NOLOGIN PASSWORD NULL", does: does, unlocks: role.name}, nil
	}
	return step{sql: endSessions(s, role.name), does: does}, nil
}

// endSessions returns the SQL that ends the sessions of clients as a role.
func endSessions(s sight, role string) string {
	timeout := ""
	if s.Version >= 140000 {
		timeout = fmt.Sprintf(", %d", sessionTimeout)
	}
	return "SELECT pg_terminate_backend(pid" + timeout + ") FROM pg_stat_activity WHERE usename = " + literal(role) + " AND backend_type = 'client backend'"
}

// afterRetirement returns the state after the step that nextOfRetirement returned for seen.
func (c *change) afterRetirement(seen sight) sight {
	former, found := c.former(seen)
	if !found {
		return c.afterOwnership(seen)
	}
	retired := former.seenRole
	switch {
	case !retired.Held && !seen.Superuser:
		retired.Held = true
	case retired.Login:
		retired.Login = false
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
