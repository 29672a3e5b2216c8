package postgresql

import "strings"

// purpose is what the operator is about to do with a role.
type purpose int

const (
	use    purpose = iota // use the role as the owner or as a login, and change it
	retire                // end the login of the role, or delete the role
)

// protects returns an error of class Protected if the operator must not use or retire a role. The role may be an
// administrator, or the server or an administrator may need it.
func (w Want) protects(s state, role *seenRole, to purpose) error {
	ours := w.ownsRole(s, role)
	excess := w.excess(role, ours, to)
	why := w.protected(role, ours, excess)
	if why == "" {
		return nil
	}
	conflict := w.conflict(s)
	conflict.Role, conflict.DatabaseOwner, conflict.Statements = true, "", ""
	if w.marked(role.Mark) && !role.System && !role.Session {
		conflict.Remedy = withoutAttributes(role.Name, excess)
	}
	const text = "role %q on the server %s, and the operator neither uses nor changes such a role"
	return NewConflict(Protected, conflict, text, role.Name, why)
}

// excess returns the attributes of a role that the operator does not accept. It accepts REPLICATION and BYPASSRLS on a
// role with the mark of the operator, because an administrator has given them to the role. It accepts CREATEROLE on a
// role that the operator has created, because the operator removes this attribute.
func (w Want) excess(r *seenRole, ours bool, to purpose) (attributes parts) {
	marked := w.marked(r.Mark)
	attributes.add(r.Superuser, "SUPERUSER")
	attributes.add(r.Replication && !marked, "REPLICATION")
	attributes.add(r.BypassRLS && !marked, "BYPASSRLS")
	attributes.add(r.CreateRole && (!ours || w.handedOver(r.Mark)) && (!marked || to != retire), "CREATEROLE")
	return attributes
}

// protected returns why the operator must not change a role that has the excess attributes, or "". The text does not
// say that the operator logs in as a role, because that is secret.
func (w Want) protected(r *seenRole, ours bool, excess []string) string {
	_, marked := parseMark(r.Mark) // an administrator is a member of a marked role, to create its database
	switch {
	case r.System:
		return "is a role of the server itself"
	case r.Superuser:
		return "is a superuser"
	case r.Session:
		return "is an administrator"
	case len(excess) > 0:
		return "has " + strings.Join(excess, " and ")
	case r.Rises && !ours:
		return "is a member of an administrator"
	case r.Carries && !ours && !marked:
		return "gives an administrator its privileges"
	}
	return ""
}

// withoutAttributes returns the SQL that takes attributes from a role, or "" if there are none.
func withoutAttributes(role string, attributes []string) string {
	if len(attributes) == 0 {
		return ""
	}
	return "ALTER ROLE " + quoted(role) + " NO" + strings.Join(attributes, " NO")
}

// unalterable returns the error of a step that failed with err. If the server has rejected a change of a role with
// REPLICATION, the error has the class Protected and a remedy: before PostgreSQL 16, only superusers may change such a
// role. Some providers change this rule in their servers, so only a rejection by the server counts.
func (c *change) unalterable(s state, next step, err error) error {
	role := s.role(next.alters)
	if role == nil || !role.Replication || s.Version >= 160000 || s.Superuser || !s.CreatesRoles ||
		!isCode(err, codeNoPrivilege) {
		return err
	}
	conflict := Conflict{Role: true, Remedy: withoutAttributes(role.Name, []string{"REPLICATION"})}
	return NewConflict(Protected, conflict, "%w; role %q has REPLICATION, so only a superuser of this server may change "+
		"this role",
		err, role.Name)
}
