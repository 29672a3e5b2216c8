package postgresql

import (
	"fmt"
	"slices"
)

// Conflict says how to resolve an error of class Taken, Protected or Kept.
type Conflict struct {
	// Role and Database say which of the desired names cannot be used.
	Role, Database bool
	// DatabaseOwner is the ordinary role that owns the existing database, or "" if no such role does.
	DatabaseOwner string
	// Statements is the SQL with which an administrator of the server hands the existing role and database over. The SQL
	// sets comments and, if a superuser owns the database, gives the database to our role. It is empty if nothing can be
	// handed over.
	Statements string
	// Remedy is the SQL that changes the attributes of our role to resolve the error. If the class is Protected, a
	// superuser of the server must execute it, to take attributes from the role. If the class is Kept, an administrator of
	// the server must execute it, to let the role log in. Remedy is empty if the error is about another role, or not about
	// attributes.
	Remedy string
}

// conflict returns the Conflict between the desired and the observed state.
func (w Want) conflict(s state) Conflict {
	foreign := s.Database != nil && !w.ownsDatabase(s)
	foreignRole := slices.ContainsFunc(w.used(s), func(role *seenRole) bool { return !w.ownsRole(s, role) })
	found := Conflict{Role: foreignRole, Database: foreign, Statements: w.handOver(s)}
	if foreign && s.Database.Ordinary && s.Database.Owner != w.Owner {
		found.DatabaseOwner = s.Database.Owner
	}
	return found
}

// handOver returns the SQL of Conflict.Statements.
func (w Want) handOver(s state) string {
	if s.Role == nil {
		return ""
	}
	c, mark, ours := newChange(w), literal(w.desiredMark(true)), w.ownsRole(s, s.Role)
	var all parts
	all.add(!ours, "COMMENT ON ROLE "+c.owner+" IS "+mark)
	if s.Database != nil && !w.ownsDatabase(s) {
		switch {
		case s.Database.Owner == w.Owner:
		case ours && s.Database.OfSuperuser: // for example after a restore; a superuser needs no ownership
			all = append(all, c.giveDatabase())
		default:
			return ""
		}
		all = append(all, "COMMENT ON DATABASE "+c.database+" IS "+mark)
	}
	if login := s.role(w.login()); login != nil && login != s.Role && !w.ownsRole(s, login) {
		all = append(all, c.markRole(quoted(login.Name)))
	}
	if len(all) == 0 {
		return ""
	}
	return all.sql() + ";"
}

// taken returns the error for a role or a database that exists and is not ours.
func (w Want) taken(s state, kind, name, comment string) error {
	text := "belongs to no ExternalDatabase"
	if mark, marked := parseMark(comment); marked && mark.UID != w.Mark.UID {
		text = fmt.Sprintf("belongs to ExternalDatabase %s/%s (UID %s), which loses it if it is handed over",
			mark.Namespace, mark.Name, mark.UID)
	}
	return NewConflict(Taken, w.conflict(s), "%s %q exists on the server and %s", kind, name, text)
}
