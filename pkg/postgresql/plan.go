package postgresql

import "context"

// subject identifies a role and a database on a server, with the credentials of the administrator.
type subject struct{ address, username, password, owner, database string }

func (s *Server) subject(w Want) subject {
	return subject{s.admin.Address(), s.admin.Username, s.admin.Password, w.Owner, w.Database}
}

// offlineID is the ID of a planned database if Options.Offline is set. No existing database has this ID.
const offlineID ID = "0/" + plannedOID

// errOffline is the error of a connection that Options.Offline forbids.
var errOffline = NewError(Silent, "the plan connects to no PostgreSQL server")

// verifier returns the text that a statement contains as the password. In a plan, it is a placeholder.
func (s *Server) verifier(password string) (string, error) {
	if s.connector.options.Plan != nil {
		return "(changed)", nil
	}
	return verifier(password)
}

// predicted returns the state after the planned statements. ok is false if no statement was planned for the role and
// the database of w.
func (s *Server) predicted(w Want) (seen state, ok bool) {
	known, ok := s.connector.predictions.Load(s.subject(w))
	seen, _ = known.(state)
	return seen, ok
}

// predict records the state after a planned statement.
func (s *Server) predict(w Want, seen state) { s.connector.predictions.Store(s.subject(w), seen) }

// withExtensions returns a predicted state with the extensions of the database of w. It queries them if the predicted
// state has the extensions of another database.
func (s *Server) withExtensions(ctx context.Context, w Want, seen state) (state, error) {
	if seen.Database == nil || seen.Database.OID == plannedOID || seen.Connected == w.Database {
		return seen, nil
	}
	admin, err := s.administrator(ctx, w.Database)
	if err != nil {
		return seen, err
	}
	inside, err := admin.look(ctx, w)
	if err != nil {
		return seen, err
	}
	seen.Connected, seen.Extensions = inside.Connected, inside.Extensions
	s.predict(w, seen)
	return seen, nil
}

// plan reports a statement in place of its execution. It returns false if there is no plan.
func (s *Server) plan(sql string) bool {
	if s.connector.options.Plan == nil {
		return false
	}
	s.connector.options.Plan(sql)
	return true
}

// plannedOID stands for the OID of a database that does not exist yet. No existing database has this OID.
const plannedOID = "0"

// desiredRole returns the owner in its desired state. If an alternate login is in use, the owner can log in only if it
// already can.
func (c *change) desiredRole(seen state) *seenRole {
	login := !c.usesAlternate() || seen.Role != nil && seen.Role.Login
	if c.keepsRole(seen) {
		kept := *seen.Role
		kept.Mark, kept.Held = c.desiredMark(true), true
		return &kept
	}
	sessions := seen.Role != nil && seen.Role.Sessions
	return &seenRole{Name: c.Owner, Mark: c.Mark.String(), Held: true, Login: login, Sessions: sessions}
}

// desiredDatabase returns the database in its desired state.
func (c *change) desiredDatabase(seen seenDatabase) *seenDatabase {
	if c.handedOver(seen.Mark) {
		seen.Owner, seen.Mark = c.Owner, c.desiredMark(true)
		return &seen
	}
	return &seenDatabase{OID: seen.OID, Owner: c.Owner, Mark: c.Mark.String(), Connectable: true, Granted: true}
}
