package postgresql

import (
	"context"
	"errors"
	"fmt"
)

// Server keeps databases on one server. It connects when it has to, with at most one
// session as the owner and one as the administrator in each database, until Close. It
// is not safe for concurrent use.
type Server struct {
	connector *Connector
	admin     Settings
	// The sessions that are open: of the owner, and of the administrator by database.
	owner  *session
	admins map[string]*session
	// refused says that the server did not take the owner's password.
	refused bool
}

// Open returns the server that settings lead to, which are those of an administrator.
// Nothing is connected yet.
func (c *Connector) Open(admin Settings) *Server {
	return &Server{connector: c, admin: admin, admins: map[string]*session{}}
}

// Close ends the sessions.
func (s *Server) Close() {
	for _, open := range s.admins {
		open.close()
	}
	if s.owner != nil {
		s.owner.close()
	}
}

// Found is what there is of what is wanted.
type Found struct {
	// ID is that of the database; none if there is no database.
	ID ID
	// Current says that nothing differs from what is wanted.
	Current bool
}

// Exists tells whether the database is there, and whether all is as wanted. It looks as
// the owner, which checks the password too, by one connection and one query; and as
// the administrator if the owner cannot log in, or was not there before.
//
// Its errors have a Class: Taken if something of the name is not ours.
func (s *Server) Exists(ctx context.Context, w Want) (Found, error) {
	c, err := newChange(w)
	if err != nil {
		return Found{}, err
	}
	if w.ID != "" {
		seen, err := s.lookAsOwner(ctx, w)
		if err == nil {
			return c.found(seen)
		}
		if !locksOut(err) {
			return Found{}, err
		}
		s.refused = isCode(err, codeInvalidPassword)
	}
	seen, err := s.lookAsAdmin(ctx, w)
	if err != nil {
		return Found{}, err
	}
	return Found{ID: seen.id()}, c.check(seen)
}

// found is what the owner sees.
func (c *change) found(seen sight) (Found, error) {
	sql, _, err := c.next(seen)
	return Found{ID: seen.id(), Current: err == nil && sql == "" && len(c.missing(seen)) == 0}, err
}

// Create makes what is wanted, and returns which database that is. It goes on where
// another attempt was cut off.
func (s *Server) Create(ctx context.Context, w Want) (ID, error) {
	c, err := newChange(w)
	if err != nil {
		return "", err
	}
	for c.newPassword = s.refused; ; c.newPassword = true {
		triesPassword := c.newPassword
		if err := s.converge(ctx, w, c.next, func() { c.newPassword = false }); err != nil {
			return "", err
		}
		seen, err := s.lookAsOwner(ctx, w)
		if isCode(err, codeInvalidPassword) && !triesPassword {
			continue // the role was there, with another password
		}
		if err != nil {
			return "", err
		}
		return seen.id(), s.extend(ctx, w, seen)
	}
}

// Update puts right what differs.
func (s *Server) Update(ctx context.Context, w Want) error {
	c, err := newChange(w)
	if err != nil {
		return err
	}
	if s.owner != nil {
		seen, err := s.owner.look(ctx, w)
		if err != nil {
			return err
		}
		sql, _, err := c.next(seen)
		if err != nil {
			return err
		}
		if sql == "" {
			return s.extend(ctx, w, seen) // no administrator is needed
		}
	}
	_, err = s.Create(ctx, w)
	return err
}

// Delete deletes database and role, whoever is connected, if they are ours. Each is
// looked at right before, in the same session. If w.ID is known, no other database is
// deleted, whatever its mark.
func (s *Server) Delete(ctx context.Context, w Want) error {
	c, err := newChange(w)
	if err != nil {
		return err
	}
	return s.converge(ctx, w, c.nextOfDeletion, func() {})
}

// steps are more than it takes to come from any state to any other.
const steps = 8

// converge does one statement after the other, and looks before each, until next has
// none.
func (s *Server) converge(ctx context.Context, w Want, next func(sight) (sql, does string, err error), done func()) error {
	for range steps {
		seen, err := s.lookAsAdmin(ctx, w)
		if err != nil {
			return err
		}
		sql, does, err := next(seen)
		if err != nil || sql == "" {
			return err
		}
		if err := s.admins[s.home(w)].exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", does, err)
		}
		done()
	}
	return errors.New("role and database do not become what is wanted: somebody else keeps changing them, or has granted PUBLIC what only they can revoke")
}

// extend makes the extensions that are missing: as the owner, or as the administrator
// those that the server does not trust everybody with.
func (s *Server) extend(ctx context.Context, w Want, seen sight) error {
	for _, name := range w.missing(seen) {
		quoted, err := Identifier(name)
		if err != nil {
			return err
		}
		// It goes into the schema that it says itself, or else into public.
		sql := "SET LOCAL search_path = public; CREATE EXTENSION IF NOT EXISTS " + quoted
		err = s.owner.exec(ctx, sql)
		if isCode(err, codeNoPrivilege) {
			var admin *session
			if admin, err = s.administrator(ctx, w.Database); err == nil {
				err = admin.exec(ctx, sql)
			}
		}
		if err != nil {
			return fmt.Errorf("making the extension %q: %w", name, err)
		}
	}
	return nil
}

// lookAsOwner logs in as the owner, unless that was done, and looks.
func (s *Server) lookAsOwner(ctx context.Context, w Want) (sight, error) {
	if s.owner == nil {
		as := s.admin
		as.Username, as.Password, as.Database = w.Owner, w.Password, w.Database
		owner, err := s.connector.connect(ctx, as)
		if err != nil {
			return sight{}, err
		}
		s.owner = owner
	}
	return s.owner.look(ctx, w)
}

// lookAsAdmin logs in as the administrator, unless that was done, and looks.
func (s *Server) lookAsAdmin(ctx context.Context, w Want) (sight, error) {
	admin, err := s.administrator(ctx, s.home(w))
	if err != nil {
		return sight{}, err
	}
	return admin.look(ctx, w)
}

// home is the database from which the administrator works: not the one that is wanted,
// which would stand in the way of its own deletion.
func (s *Server) home(w Want) string {
	if s.admin.Database == w.Database {
		return defaultDatabase
	}
	return s.admin.Database
}

// administrator is the administrator's session in a database.
func (s *Server) administrator(ctx context.Context, database string) (*session, error) {
	if open := s.admins[database]; open != nil {
		return open, nil
	}
	as := s.admin
	as.Database = database
	open, err := s.connector.connect(ctx, as)
	if err == nil {
		s.admins[database] = open
	}
	return open, err
}
