package postgresql

import (
	"context"
	"fmt"
)

// Server creates, updates and deletes roles and databases on one PostgreSQL server. It connects when needed. Until
// Close it keeps at most one session as the login of the owner, and one as the administrator in each database. It is
// not safe for concurrent use.
type Server struct {
	connector *Connector
	tenant    string
	admin     Settings
	// owner is the open session of the owner's login. admins has the administrator's open sessions by database.
	owner  *session
	admins map[string]*session
	// rejection is the error with which the server rejected the login in Exists, or nil.
	rejection error
	// visit is the visit that the gate has admitted, or nil before the first connection.
	visit *visit
}

// Open returns a Server for the settings of an administrator. It does not connect. tenant is, for example, a namespace.
// Tenants use slow servers in turn.
func (c *Connector) Open(tenant string, admin Settings) *Server {
	return &Server{connector: c, tenant: tenant, admin: admin, admins: map[string]*session{}}
}

// Close closes all sessions.
func (s *Server) Close() {
	for _, open := range s.admins {
		open.close()
	}
	s.forgetOwner()
	if s.visit != nil {
		s.visit.leave()
	}
}

// Found is the result of Exists.
type Found struct {
	// ID is the identity of the database. It is empty if the database does not exist.
	ID ID
	// Current is true if the login works and everything is in the desired state.
	Current bool
	// Previous is a role that is not the login, but can log in or has sessions, so that Retire must be called. It is empty
	// if there is no such role.
	Previous string
}

// Exists reports whether the database exists, and whether everything is in the desired state. If w has an ID, Exists
// logs in as w.Login, which also checks the password, and sends one query. If w has no ID, or if the login or the query
// fails, Exists sends the query as the administrator, and Found.Current is false. A failure alone proves nothing,
// because a user of the login can cause it.
//
// Errors have a Class. The class is Taken if a role or database with the desired name exists and is not ours. It is
// Protected if a role is an administrator or a role of the server itself.
func (s *Server) Exists(ctx context.Context, w Want) (Found, error) {
	if s.connector.options.Offline {
		return Found{ID: w.ID, Current: w.ID != ""}, nil
	}
	c := newChange(w)
	if w.ID != "" {
		seen, err := s.lookAsOwner(ctx, w)
		if err == nil {
			next, err := c.next(seen)
			return c.found(seen, err == nil && next.sql == "" && len(c.missing(seen)) == 0), err
		}
		if ofServer(err) {
			return Found{}, err
		}
		s.forgetOwner()
		s.rejection = err
	}
	seen, err := s.lookAsAdmin(ctx, w)
	if err != nil {
		return Found{}, err
	}
	return c.found(seen, false), c.check(seen)
}

// found returns the result of Exists.
func (c *change) found(seen state, current bool) Found {
	found := Found{ID: seen.id(), Current: current}
	if previous := c.previous(seen); previous != nil {
		found.Previous = previous.Name
	}
	return found
}

// Ensure brings the role and the database to the desired state, or continues an interrupted creation. If w has an ID,
// Ensure does not create the database. It returns the identity of the database, even if the owner cannot log in, or if
// an extension cannot be created. The error has the class Kept if the owner was handed over and does not accept the
// password.
func (s *Server) Ensure(ctx context.Context, w Want) (ID, error) { return s.apply(ctx, newChange(w)) }

// Rotate sets w.Password as the password of w.Login, an alternate login that clients do not use yet, and logs in with
// it. Rotate creates the alternate login if it does not exist. It changes nothing else, so that no user of the login in
// use can block a rotation. The error has the class Taken if a role with the name of the alternate login exists and is
// not ours; Rotate then changes nothing. The error has the class Unproven if the server accepts the password, but the
// login cannot use the database now.
func (s *Server) Rotate(ctx context.Context, w Want) error {
	s.forgetOwner()
	s.rejection = nil // the error of another login
	c := newChange(w)
	c.rotates = true
	_, err := s.apply(ctx, c)
	return err
}

// Retire takes LOGIN and the password from our roles other than w.Login, and ends their sessions. It gives the objects
// that alternate logins own in the database to the owner. It does not change a role that is not ours. Its error has the
// class Away if a session has not ended yet.
func (s *Server) Retire(ctx context.Context, w Want) error {
	return s.carryOut(ctx, w, (*change).nextOfRetirement)
}

// Delete deletes the database and the roles if they are ours, even if clients are connected. It queries the state right
// before each statement, in the same session. If w.ID is set, Delete deletes no database with another ID, even if the
// database has our mark.
func (s *Server) Delete(ctx context.Context, w Want) error {
	return s.carryOut(ctx, w, (*change).nextOfDeletion)
}

// carryOut executes the steps that nextStep returns, until nextStep returns none.
func (s *Server) carryOut(ctx context.Context, w Want, nextStep func(*change, state) (step, error)) error {
	if s.connector.options.Offline {
		return nil
	}
	_, err := s.converge(ctx, newChange(w), nextStep)
	return err
}

// connect logs in if the gate admits the visit, and reports the result to the gate. who names the role in errors.
func (s *Server) connect(ctx context.Context, as Settings, role, who string) (*session, error) {
	if s.connector.options.Offline {
		return nil, errOffline
	}
	if s.visit == nil {
		visit, err := s.connector.gate.enter(s.tenant, as.Address())
		if err != nil {
			return nil, err
		}
		s.visit = visit
	}
	ctx, cancel := s.visit.within(ctx)
	defer cancel()
	open, err := s.connector.connect(ctx, as, role, []string{
		s.admin.Host, s.admin.Username, s.admin.Password, s.admin.Database, as.Password,
	})
	s.visit.asked(err)
	if err != nil {
		if ClassOf(err) != Silent {
			err = fmt.Errorf("logging in as %s: %w", who, err)
		}
		return nil, err
	}
	open.visit = s.visit
	return open, nil
}

// lookAsOwner queries the state as the login of the owner.
func (s *Server) lookAsOwner(ctx context.Context, w Want) (state, error) {
	if seen, ok := s.predicted(w); ok {
		return s.withExtensions(ctx, w, seen)
	}
	if s.owner == nil {
		as := s.admin
		as.Username, as.Password, as.Database = w.login(), w.Password, w.Database
		owner, err := s.connect(ctx, as, LoginOwner, fmt.Sprintf("the owner %q", w.login()))
		if err != nil {
			return state{}, err
		}
		s.owner = owner
	}
	seen, err := s.owner.look(ctx, w)
	for _, role := range seen.roles() {
		role.Session = false // the connection uses the login of the owner, not an administrator
	}
	return seen, err
}

// lookAsAdmin queries the state as the administrator.
func (s *Server) lookAsAdmin(ctx context.Context, w Want) (state, error) {
	if seen, ok := s.predicted(w); ok {
		return seen, nil
	}
	admin, err := s.administrator(ctx, s.home(w))
	if err != nil {
		return state{}, err
	}
	return admin.look(ctx, w)
}

// home returns the database to which the administrator connects. It avoids the desired database, because a
// session cannot drop its own database.
func (s *Server) home(w Want) string {
	if s.admin.Database == w.Database {
		return DefaultDatabase
	}
	return s.admin.Database
}

// administrator returns the administrator's session in a database.
func (s *Server) administrator(ctx context.Context, database string) (*session, error) {
	if open := s.admins[database]; open != nil {
		return open, nil
	}
	as := s.admin
	as.Database = database
	open, err := s.connect(ctx, as, LoginAdministrator, "the administrator")
	if err == nil {
		s.admins[database] = open
	}
	return open, err
}
