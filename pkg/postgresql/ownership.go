package postgresql

import "slices"

// check returns an error of class Protected if the owner or the login is a role that the operator never uses or
// changes. It returns an error of class Taken if a role or the database exists and is not ours. It returns an error
// of class Replaced if w.ID names another server and the database does not exist on this server.
func (w Want) check(s state) error {
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
			const text = "database %q has the mark of this ExternalDatabase, but another role owns it, and its " +
				"identity is not recorded"
			return NewConflict(Taken, w.conflict(s), text, w.Database)
		}
		return w.taken(s, "database", w.Database, s.Database.Mark)
	case w.ID != "" && w.ID.server() != s.Server && s.Database == nil:
		return w.moved(s)
	}
	return nil
}

// used returns the owner and the login, if they exist.
func (w Want) used(s state) (all []*seenRole) {
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
func (w Want) ownRoles(s state) []*seenRole {
	return slices.DeleteFunc(s.roles(), func(role *seenRole) bool { return !w.ownsRole(s, role) })
}

// ownsRole reports whether a role is ours. A role with a mark is ours if the mark is ours. An owner without a mark is
// ours if it owns the database with our mark and our ID. An alternate login without a mark is ours if it is in use and
// acts as the owner with our mark.
func (w Want) ownsRole(s state, role *seenRole) bool {
	if mark, marked := parseMark(role.Mark); marked {
		return mark.UID == w.Mark.UID
	}
	if role == s.Role {
		return s.Database != nil && s.Database.Owner == w.Owner && s.id() == w.ID && w.marked(s.Database.Mark)
	}
	return role.Name == w.login() && role.Member && role.Acts && s.Role != nil && w.marked(s.Role.Mark)
}

// ownsDatabase reports whether the database is ours. A database with our ID that our role owns is ours. Its mark does
// not matter, because the owner of a database can set any mark on it. A database with our mark is ours if it has our
// ID, or if our role owns it. A database without a mark is ours if our role owns it and it accepts no connections,
// because then its creation was interrupted.
func (w Want) ownsDatabase(s state) bool {
	// A user who logs in as the owner can neither mark a role nor give the database to another role.
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

func (w Want) moved(s state) error {
	return NewError(Replaced, "the server was replaced: its system identifier is %s, and the recorded one is %s",
		s.Server, w.ID.server())
}

// keepsRole reports whether the owner was handed over. If the owner has no mark, the mark of the database decides.
func (w Want) keepsRole(s state) bool {
	if s.Role == nil {
		return false
	}
	if _, marked := parseMark(s.Role.Mark); marked || s.Database == nil {
		return w.handedOver(s.Role.Mark)
	}
	return w.handedOver(s.Database.Mark)
}

// handedOver reports whether a comment is our mark on a role or a database that was handed over.
func (w Want) handedOver(comment string) bool {
	mark, marked := parseMark(comment)
	return marked && mark.UID == w.Mark.UID && mark.HandedOver
}

// desiredMark returns our mark, which says whether the role or the database was handed over.
func (w Want) desiredMark(handedOver bool) string {
	mark := w.Mark
	mark.HandedOver = handedOver
	return mark.String()
}
