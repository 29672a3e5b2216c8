package postgresql

import (
	"fmt"
	"strings"
)

// The owner and its alternate login take turns. The alternate login is a member of the owner, and its sessions act as the
// owner, so that objects belong to the owner whichever login creates them.

// login returns the role that logs in with the password.
func (w Want) login() string {
	if w.usesAlternate() {
		return w.Alternate
	}
	return w.Owner
}

// usesAlternate reports whether the alternate login is in use.
func (w Want) usesAlternate() bool { return w.Alternate != "" && w.Login == w.Alternate }

// ownsAlternate reports whether the role with the name of the alternate login is ours: it has our mark. If it has no mark,
// it is ours if it is in use and acts as our owner.
func (w Want) ownsAlternate(s sight) bool {
	if mark, marked := parseMark(s.Alternate.Mark); marked {
		return mark.UID == w.Mark.UID
	}
	return w.usesAlternate() && s.Alternate.Member && s.Alternate.Acts && s.Role != nil && w.marked(s.Role.Mark)
}

// nextOfAlternate returns the next step to an alternate login that is in use. The owner exists.
func (c *change) nextOfAlternate(s sight) (step, error) {
	if s.Alternate == nil {
		secret, err := c.verifier()
		if err != nil {
			return step{}, err
		}
		statements := []string{
			"CREATE ROLE " + c.alternate + " LOGIN INHERIT NOSUPERUSER NOCREATEROLE NOCREATEDB PASSWORD " + literal(secret),
			c.markRole(c.alternate),
		}
		if !s.Superuser {
			statements = append(statements, c.hold(s, c.alternate))
		}
		statements = append(statements, grant(s, c.owner, c.alternate), c.act())
		return step{sql: strings.Join(statements, "; "), does: fmt.Sprintf("creating role %q", c.Alternate), setsPassword: true}, nil
	}
	attributes, err := c.attributes(s.Alternate.seenRole, true)
	if err != nil {
		return step{}, err
	}
	if !s.Alternate.Inherits {
		attributes += " INHERIT"
	}
	var statements []string
	add := func(wrong bool, statement string) {
		if wrong {
			statements = append(statements, statement)
		}
	}
	add(attributes != "", "ALTER ROLE "+c.alternate+attributes)
	add(s.Alternate.Mark != c.Mark.String(), c.markRole(c.alternate))
	add(!s.Alternate.Member, grant(s, c.owner, c.alternate))
	add(!s.Alternate.Acts, c.act())
	add(!s.Alternate.Acts && s.Database != nil, "ALTER ROLE "+c.alternate+" IN DATABASE "+c.database+" RESET role")
	return step{sql: strings.Join(statements, "; "), does: fmt.Sprintf("updating role %q", c.Alternate), setsPassword: c.newPassword}, nil
}

// act returns the SQL that makes the sessions of the alternate login act as the owner. The alternate login must be a
// member of the owner.
func (c *change) act() string { return "ALTER ROLE " + c.alternate + " SET role = " + literal(c.Owner) }

// former returns the login that clients must not use any more, with its name. It returns nil if this role does not exist
// or is not ours.
func (c *change) former(s sight) (role *seenRole, name string) {
	switch {
	case c.usesAlternate() && s.Role != nil && c.ownsRole(s):
		return s.Role, c.Owner
	case !c.usesAlternate() && s.Alternate != nil && c.ownsAlternate(s):
		return &s.Alternate.seenRole, c.Alternate
	}
	return nil, c.Owner
}

// hasFormer reports whether nextOfRetirement has a step, apart from the rights of the administrator: the former login can
// log in, or has sessions, or is an alternate login that owns objects.
func (c *change) hasFormer(s sight) bool {
	role, _ := c.former(s)
	return role != nil && (role.Login || role.Sessions || !c.usesAlternate() && s.Alternate.Owns)
}

// sessionTimeout is how long the operator waits for the end of a session, in milliseconds.
const sessionTimeout = 250

// nextOfRetirement returns the next step to a former login that cannot log in, has no sessions and owns nothing in the
// database. A session ends after the role has lost its login, so that no client logs in again.
func (c *change) nextOfRetirement(s sight) (step, error) {
	if err := c.check(s); err != nil {
		return step{}, err
	}
	role, name := c.former(s)
	if !c.hasFormer(s) {
		return step{}, nil
	}
	quoted := c.owner
	if !c.usesAlternate() {
		quoted = c.alternate
	}
	does := fmt.Sprintf("retiring role %q", name)
	switch {
	case !role.Held && !s.Superuser:
		return step{sql: c.hold(s, quoted), does: does}, nil
	case role.Login:
		return step{sql: "ALTER ROLE " + quoted + " NOLOGIN PASSWORD NULL", does: does}, nil
	case role.Sessions:
		timeout := ""
		if s.Version >= 140000 {
			timeout = fmt.Sprintf(", %d", sessionTimeout)
		}
		return step{sql: "SELECT pg_terminate_backend(pid" + timeout + ") FROM pg_stat_activity WHERE usename = " + literal(name), does: does}, nil
	}
	return step{sql: "SET LOCAL ROLE NONE; REASSIGN OWNED BY " + quoted + " TO " + c.owner, does: does, inside: true}, nil
}

// afterRetirement returns the state after the step that nextOfRetirement returned for seen.
func (c *change) afterRetirement(seen sight) sight {
	retired := func(role seenRole) seenRole {
		switch {
		case !role.Held && !seen.Superuser:
			role.Held = true
		case role.Login:
			role.Login = false
		default:
			role.Sessions = false
		}
		return role
	}
	if c.usesAlternate() {
		role := retired(*seen.Role)
		seen.Role = &role
		return seen
	}
	alternate := *seen.Alternate
	alternate.Owns = alternate.Owns && (alternate.Sessions || alternate.Login || !alternate.Held && !seen.Superuser)
	alternate.seenRole = retired(alternate.seenRole)
	seen.Alternate = &alternate
	return seen
}

// desiredAlternate returns the alternate login in its desired state.
func (c *change) desiredAlternate() *seenAlternate {
	return &seenAlternate{seenRole: seenRole{Mark: c.Mark.String(), Held: true, Login: true}, Inherits: true, Member: true, Acts: true}
}

// HandOverAlternate returns the SQL with which an administrator hands an existing role over to the object of w.Mark, as
// its alternate login. It returns "" for a name that Identifier refuses.
func HandOverAlternate(w Want) string {
	c, err := newChange(w)
	if err != nil || c.alternate == "" {
		return ""
	}
	return c.markRole(c.alternate) + ";"
}
