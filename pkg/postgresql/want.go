package postgresql

import "slices"

// Want is the desired state of a role and its database.
type Want struct {
	// Mark identifies the object that the role and the database belong to.
	Mark Mark
	// Database and Owner are names that checkName accepts.
	Database, Owner string
	// Alternates are the names of the alternate logins. Each rotation changes the login to another one of them. Their
	// sessions act as Owner, which is not among the names.
	Alternates []string
	// Login is the role that logs in with Password: Owner, or one of Alternates. Empty means Owner.
	Login string
	// Password is the password of Login, in printable ASCII.
	Password string
	// Extensions are the extensions that the database must have. The operator does not remove other extensions.
	Extensions []string
	// ID is the last known identity of the database, or empty.
	ID ID
}

// checkNames returns an error if PostgreSQL would change or reject a name.
func (w Want) checkNames() error {
	for _, name := range append([]string{w.Owner, w.Database}, w.Alternates...) {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return nil
}

// login returns the role that logs in with the password.
func (w Want) login() string {
	if w.usesAlternate() {
		return w.Login
	}
	return w.Owner
}

// usesAlternate reports whether an alternate login is in use.
func (w Want) usesAlternate() bool { return slices.Contains(w.Alternates, w.Login) }

// missing returns the desired extensions that the database lacks.
func (w Want) missing(s state) []string {
	return slices.DeleteFunc(slices.Clone(w.Extensions), func(name string) bool {
		return slices.Contains(s.Extensions, name)
	})
}
