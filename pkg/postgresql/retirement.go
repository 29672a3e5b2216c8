package postgresql

import "fmt"

// previous returns one of our roles that is not the login, and that can log in or has sessions, or nil if there is
// none. An alternate login comes before the owner.
func (c *change) previous(s state) *seenRole {
	for _, role := range c.ownRoles(s) {
		if role.Name != c.login() && (role.Login || role.Sessions) {
			return role
		}
	}
	return nil
}

// sessionTimeout is how long the operator waits for the end of a session, in milliseconds.
const sessionTimeout = "250"

// nextOfRetirement returns the next step that retires our roles other than the login. First, a role loses the attribute
// LOGIN, then its sessions end, and last, its objects go to the owner. The attribute comes first because a user of the
// role can block the other steps, and could log in again after a session has ended. Its removal does not depend on the
// state of the database, because such a user can change that state.
func (c *change) nextOfRetirement(s state) (step, error) {
	if c.ID != "" && c.ID.server() != s.Server && s.Database == nil {
		return step{}, c.moved(s)
	}
	role := c.previous(s)
	if role == nil {
		if err := c.check(s); err != nil {
			return step{}, err
		}
		return c.nextOfOwnership(s), nil
	}
	if err := c.protects(s, role, retire); err != nil {
		return step{}, err
	}
	does := fmt.Sprintf("retiring role %q", role.Name)
	switch {
	case role.Login:
		return step{
			sql: "ALTER ROLE " + quoted(role.Name) + " NOLOGIN PASSWORD NULL", does: does, alters: role.Name,
			unlocks: c.unlock(s, role), then: func(*state) { role.Login = false },
		}, nil
	case !role.Held && !s.Superuser:
		return c.join(s, role, does), nil
	}
	return step{
		sql: endSessions(role.Name, ", "+sessionTimeout), does: does, then: func(*state) { role.Sessions = false },
	}, nil
}

// unlock returns the SQL that ends the sessions of a role and does not wait for their end.
func (c *change) unlock(s state, role *seenRole) string {
	sql := endSessions(role.Name, "")
	if !role.Held && !s.Superuser {
		sql = c.hold(s, quoted(role.Name)) + "; " + sql
	}
	return sql
}

// ofClient is the SQL that matches the backend_type of a client's session. A client whose role has REPLICATION can have
// the type walsender.
const ofClient = "IN ('client backend', 'walsender')"

// endSessions returns the SQL that ends the sessions of clients that have logged in as a role. timeout is "", or a
// comma and how many milliseconds to wait for the end of each session.
func endSessions(role, timeout string) string {
	return "SELECT pg_terminate_backend(pid" + timeout + ") FROM pg_stat_activity WHERE usename = " + literal(role) +
		" AND backend_type " + ofClient
}
