package postgresql

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Server keeps databases on one server. It connects when it has to, with at most one
// session as the owner and one as the administrator in each database, until Close. It
// is not safe for concurrent use.
type Server struct {
	connector *Connector
	tenant    string
	admin     Settings
	// The sessions that are open: of the owner, and of the administrator by database.
	owner  *session
	admins map[string]*session
	// refused says that the server did not take the owner's password.
	refused bool
	// visit is what the gate knows of this; nil before the first connection.
	visit *visit
}

// Open returns the server that settings lead to, which are those of an administrator. The
// tenant, such as a namespace, is who named the server: no tenant's servers are in the way of
// another's. Nothing is connected yet.
func (c *Connector) Open(tenant string, admin Settings) *Server {
	return &Server{connector: c, tenant: tenant, admin: admin, admins: map[string]*session{}}
}

// Close ends the sessions.
func (s *Server) Close() {
	for _, open := range s.admins {
		open.close()
	}
	if s.owner != nil {
		s.owner.close()
	}
	if s.visit != nil {
		s.visit.leave()
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
		seen, err := s.lookAsOwner(ctx, w)
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
		if err := s.exec(ctx, s.admins[s.home(w)], sql); err != nil {
			return fmt.Errorf("%s: %w", does, err)
		}
		done()
	}
	return errors.New("role and database do not become what is wanted: somebody else keeps changing them, or has granted PUBLIC what only they can revoke")
}

// extend makes the extensions that are missing, as long as one more can be made: some
// need others. What is left is told of the first.
func (s *Server) extend(ctx context.Context, w Want, seen sight) error {
	missing := w.missing(seen)
	for {
		var first error
		left := slices.DeleteFunc(slices.Clone(missing), func(name string) bool {
			err := s.makeExtension(ctx, w, name)
			if err != nil && first == nil {
				first = fmt.Errorf("making the extension %q: %w", name, err)
			}
			return err == nil
		})
		if len(left) == 0 || len(left) == len(missing) {
			return first
		}
		missing = left
	}
}

// makeExtension makes one as the owner or, if the owner may not and that is allowed, as
// the administrator. It goes into the schema that it names itself, or else into public.
func (s *Server) makeExtension(ctx context.Context, w Want, name string) error {
	quoted, err := Identifier(name)
	if err != nil {
		return err
	}
	sql := "SET LOCAL ROLE NONE; SET LOCAL search_path = public; CREATE EXTENSION IF NOT EXISTS " + quoted
	err = s.exec(ctx, s.owner, sql)
	if isCode(err, codeNoPrivilege) {
		if !slices.Contains(s.connector.options.UntrustedExtensions, name) {
			return NewError(Denied, "the server does not trust owners with it, and --external-database-untrusted-extensions does not have it: %w", err)
		}
		admin, connectErr := s.administrator(ctx, w.Database)
		if connectErr != nil {
			return connectErr
		}
		err = s.exec(ctx, admin, sql)
	}
	if codeOf(err) != "" && ClassOf(err) == Other {
		return NewError(Rejected, "%w", err) // another attempt would fail as this one
	}
	return err
}

// connect connects, if the gate lets this in, and tells it what came of that.
func (s *Server) connect(ctx context.Context, as Settings, who string) (*session, error) {
	if s.visit == nil {
		visit, err := s.connector.gate.enter(place{s.tenant, as.Address()})
		if err != nil {
			return nil, err
		}
		s.visit = visit
	}
	ctx, cancel := s.visit.within(ctx)
	defer cancel()
	open, err := s.connector.connect(ctx, as, []string{s.admin.Host, s.admin.Username, s.admin.Password, s.admin.Database, as.Password})
	s.visit.asked(err)
	if err != nil && !isSilent(err) {
		err = fmt.Errorf("logging in as %s: %w", who, err)
	}
	return open, err
}

func (s *Server) look(ctx context.Context, in *session, w Want) (sight, error) {
	ctx, cancel := s.visit.within(ctx)
	defer cancel()
	seen, err := in.look(ctx, w)
	s.visit.asked(err)
	return seen, err
}

func (s *Server) exec(ctx context.Context, in *session, sql string) error {
	ctx, cancel := s.visit.within(ctx)
	defer cancel()
	err := in.exec(ctx, sql)
	s.visit.asked(err)
	return err
}

// lookAsOwner logs in as the owner, unless that was done, and looks.
func (s *Server) lookAsOwner(ctx context.Context, w Want) (sight, error) {
	if s.owner == nil {
		as := s.admin
		as.Username, as.Password, as.Database = w.Owner, w.Password, w.Database
		owner, err := s.connect(ctx, as, fmt.Sprintf("the owner %q", w.Owner))
		if err != nil {
			return sight{}, err
		}
		s.owner = owner
	}
	return s.look(ctx, s.owner, w)
}

// lookAsAdmin logs in as the administrator, unless that was done, and looks.
func (s *Server) lookAsAdmin(ctx context.Context, w Want) (sight, error) {
	admin, err := s.administrator(ctx, s.home(w))
	if err != nil {
		return sight{}, err
	}
	return s.look(ctx, admin, w)
}

// home is the database from which the administrator works: not the one that is wanted,
// which would stand in the way of its own deletion.
func (s *Server) home(w Want) string {
	if s.admin.Database == w.Database {
		return DefaultDatabase
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
	open, err := s.connect(ctx, as, "the administrator")
	if err == nil {
		s.admins[database] = open
	}
	return open, err
}
