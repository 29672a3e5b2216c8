package postgresql

import "slices"

// Want is the desired state of a role and its database.
type Want struct {
	// Mark identifies the object that the role and the database belong to.
	Mark Mark
	// Database and Owner are names that Identifier accepts.
	Database, Owner string
	// Alternates are the names of the logins that take turns from the first rotation on, and act as the owner. They differ
	// from Owner.
	Alternates []string
	// Login is the role that logs in with Password: Owner, or one of Alternates. Empty means Owner.
	Login string
	// Password is the password of the login, in printable ASCII.
	Password string
	// Extensions must exist in the database. Other extensions stay.
	Extensions []string
	// ID is the last known identity of the database, or empty.
	ID ID
}

// check returns an error of class Protected if the owner or the login is a role that the operator never uses or
// changes. It returns an error of class Taken if a role or the database exists and is not ours. It returns an error
// of class Replaced if w.ID names another server and the database does not exist on this server.
func (w Want) check(s sight) error {
	used := w.used(s)
	for _, role := range used {
		if err := w.protects(s, role, use); err != nil {
			return err
		}
	}
	for _, role := range used {
		if !w.ownsRole(s, role) {
			return w.taken(s, "role", role.Name, role.Mark)
		}
	}
	switch {
	case s.Database != nil && !w.ownsDatabase(s):
		if w.marked(s.Database.Mark) {
			const text = "database %q has the mark of this ExternalDatabase, but another role owns it, and its identity is not recorded"
			return NewConflict(Taken, w.conflict(s), text, w.Database)
		}
		return w.taken(s, "database", w.Database, s.Database.Mark)
	case w.ID != "" && w.ID.server() != s.Server && s.Database == nil:
		return w.moved(s)
	}
	return nil
}

// used returns the owner and the login, if they exist.
func (w Want) used(s sight) (all []*seenRole) {
	for _, role := range s.roles() {
		if role == s.Role {
			all = slices.Insert(all, 0, role)
		} else if role.Name == w.login() {
			all = append(all, role)
		}
	}
	return all
}

// ownRoles returns our roles that exist: the alternate logins first, then the owner.
func (w Want) ownRoles(s sight) []*seenRole {
	return slices.DeleteFunc(s.roles(), func(role *seenRole) bool { return !w.ownsRole(s, role) })
}

// ownsRole reports whether a role is ours: it has our mark. If it has no mark, the owner is ours if it owns the database
// with our mark and our ID, and an alternate login is ours if it is in use and acts as our owner.
func (w Want) ownsRole(s sight, role *seenRole) bool {
	if mark, marked := parseMark(role.Mark); marked {
		return mark.UID == w.Mark.UID
	}
	if role == s.Role {
		return s.Database != nil && s.Database.Owner == w.Owner && s.id() == w.ID && w.marked(s.Database.Mark)
	}
	return role.Name == w.login() && role.Member && role.Acts && s.Role != nil && w.marked(s.Role.Mark)
}

// ownsDatabase reports whether the database is ours. The owner of a database can set any mark on it, so a database
// with our ID that our role owns is ours whatever its mark. Otherwise, a database with our mark is ours if it has our
// ID, or if our role owns it. A database without a mark is ours if our role owns it, and if it accepts no connections
// because its creation was interrupted.
func (w Want) ownsDatabase(s sight) bool {
	// The owner can neither mark a role nor give the database to another role.
	ofOurs, same := s.Role != nil && w.marked(s.Role.Mark) && s.Database.Owner == w.Owner, s.id() == w.ID
	mark, marked := parseMark(s.Database.Mark)
	switch {
	case ofOurs && same:
		return true
	case marked:
		return mark.UID == w.Mark.UID && (ofOurs || same)
	}
	return ofOurs && !s.Database.Connectable
}

func (w Want) marked(comment string) bool {
	mark, marked := parseMark(comment)
	return marked && mark.UID == w.Mark.UID
}

func (w Want) moved(s sight) error {
	return NewError(Replaced, "the server was replaced: its system identifier is %s, and the recorded one is %s", s.Server, w.ID.server())
}
