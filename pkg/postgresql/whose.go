package postgresql

// Want is the desired state of a role and its database.
type Want struct {
	// Mark identifies the object that the role and the database belong to.
	Mark Mark
	// Database and Owner are names that Identifier accepts.
	Database, Owner string
	// Password is the password of the owner, in printable ASCII.
	Password string
	// Extensions must exist in the database. Other extensions stay.
	Extensions []string
	// ID is the last known identity of the database, or empty.
	ID ID
}

// check returns an error of class Taken if the role or the database belongs to somebody else. It returns an
// error of class Replaced if w.ID names another server and the database does not exist on this server.
func (w Want) check(s sight) error {
	switch {
	case s.Role != nil && !w.ownsRole(s):
		return taken("role", w.Owner, s.Role.Mark)
	case s.Database != nil && !w.ownsDatabase(s):
		if w.marked(s.Database.Mark) {
			return NewError(Taken, "database %q bears this ExternalDatabase's mark, but is owned by role %q, and was not known before", w.Database, s.Database.Owner)
		}
		return taken("database", w.Database, s.Database.Mark)
	case w.ID != "" && w.ID.server() != s.Server && s.Database == nil:
		return w.moved(s)
	}
	return nil
}

// ownsRole reports whether the role is ours: by its mark or, if the mark was removed, by the database that it
// owns.
func (w Want) ownsRole(s sight) bool {
	if mark, marked := parseMark(s.Role.Mark); marked {
		return mark.UID == w.Mark.UID
	}
	return s.Database != nil && s.Database.Owner == w.Owner && s.id() == w.ID && w.marked(s.Database.Mark)
}

// ownsDatabase reports whether the database is ours: by its mark or, if the mark was removed, by its ID, or by
// the state in which an interrupted creation leaves it.
func (w Want) ownsDatabase(s sight) bool {
	if mark, marked := parseMark(s.Database.Mark); marked && mark.UID != w.Mark.UID {
		return false
	} else if marked {
		// The mark alone proves nothing: the owner of a database can set any mark on it. But the owner can
		// neither mark a role nor give the database to another role.
		return s.id() == w.ID || s.Role != nil && w.marked(s.Role.Mark) && s.Database.Owner == w.Owner
	}
	return s.Role != nil && w.marked(s.Role.Mark) && s.Database.Owner == w.Owner && (s.id() == w.ID || !s.Database.Connectable)
}

func (w Want) marked(comment string) bool {
	mark, marked := parseMark(comment)
	return marked && mark.UID == w.Mark.UID
}

func taken(kind, name, comment string) error {
	if mark, marked := parseMark(comment); marked {
		return NewError(Taken, "%s %q on the server belongs to ExternalDatabase %s/%s (UID %s)", kind, name, mark.Namespace, mark.Name, mark.UID)
	}
	return NewError(Taken, "%s %q is there already and belongs to no ExternalDatabase", kind, name)
}

func (w Want) moved(s sight) error {
	return NewError(Replaced, "the server is another one than before: its system identifier is %s, not %s", s.Server, w.ID.server())
}
