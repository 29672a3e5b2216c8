package postgresql

import (
	"context"
	"slices"
	"sync"
)

// predictions are the states of roles and databases after the statements of a plan.
type predictions struct {
	mu   sync.Mutex
	seen map[subject]sight
}

// subject is a role and a database on a server, as one administrator sees them.
type subject struct{ address, username, password, owner, database string }

func (s *Server) subject(w Want) subject {
	return subject{s.admin.Address(), s.admin.Username, s.admin.Password, w.Owner, w.Database}
}

// offlineID is the ID of a planned database on a server that the plan does not ask. No database has it.
const offlineID ID = "0/" + plannedOID

// errOffline is the error of a connection that Options.Offline forbids.
var errOffline = NewError(Silent, "the plan connects to no PostgreSQL server")

// newChange returns the change to the desired state.
func (s *Server) newChange(w Want) (*change, error) {
	c, err := newChange(w)
	if err == nil {
		c.planned = s.connector.options.Plan != nil
	}
	return c, err
}

// predicted returns the state after the planned statements. ok is false if none was planned for the role and the
// database of w.
func (s *Server) predicted(w Want) (seen sight, ok bool) {
	p := s.connector.predictions
	p.mu.Lock()
	defer p.mu.Unlock()
	seen, ok = p.seen[s.subject(w)]
	return seen, ok
}

// predict records the state after a planned statement.
func (s *Server) predict(w Want, seen sight) {
	p := s.connector.predictions
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[s.subject(w)] = seen
}

// withExtensions returns a predicted state with the extensions of the database, if the state is from a session in another
// database.
func (s *Server) withExtensions(ctx context.Context, w Want, seen sight) (sight, error) {
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

// after returns the state after the step that next returned for seen. c.newPassword must have the value that it had when
// next ran.
func (c *change) after(seen sight) sight {
	desired := c.seenOrDesired(seen)
	owner, _ := c.alterRole(desired)
	alternate := step{}
	if c.usesAlternate() {
		alternate, _ = c.nextOfAlternate(seen)
	}
	// The order is that of next.
	switch {
	case seen.Role == nil || owner != "" && !c.rotates:
		seen.Role = c.desiredRole(desired)
	case alternate.sql != "":
		seen = seen.withAlternate(c.desiredAlternate(seen.alternate(c.Login)))
	case seen.Database == nil:
		seen.Database = &seenDatabase{OID: plannedOID, Owner: c.Owner, Public: true, Granted: true}
		seen.Extensions = nil // template0 has none that an ExternalDatabase lists
	case c.alterDatabase(seen) == "":
		seen = c.afterOwnership(seen)
	default:
		seen.Database = c.desiredDatabase(*seen.Database)
	}
	return seen
}

// desiredRole returns the owner in its desired state. If an alternate login is in use, the owner can log in only if it
// could before.
func (c *change) desiredRole(seen sight) *seenRole {
	login := !c.usesAlternate() || seen.Role != nil && seen.Role.Login
	if c.keepsRole(seen) {
		kept := *seen.Role
		kept.Mark, kept.Held = c.desiredMark(true), true
		return &kept
	}
	return &seenRole{Mark: c.Mark.String(), Held: true, Login: login, Sessions: seen.Role != nil && seen.Role.Sessions}
}

// desiredDatabase returns the database in its desired state.
func (c *change) desiredDatabase(seen seenDatabase) *seenDatabase {
	if c.handedOver(seen.Mark) {
		seen.Owner, seen.Mark = c.Owner, c.desiredMark(true)
		return &seen
	}
	return &seenDatabase{OID: seen.OID, Owner: c.Owner, Mark: c.Mark.String(), Connectable: true, Granted: true}
}

// seenOrDesired returns seen, with the desired owner if there is none.
func (c *change) seenOrDesired(seen sight) sight {
	if seen.Role == nil {
		seen.Role = c.desiredRole(seen)
	}
	return seen
}

// afterDeletion returns the state after the step that nextOfDeletion returned for seen.
func (c *change) afterDeletion(seen sight) sight {
	role, database, alternates := seen.Role, seen.Database, c.ownAlternates(seen)
	switch {
	case (database == nil || !c.ownsDatabase(seen)) && len(alternates) > 0:
		seen.Alternates = slices.DeleteFunc(slices.Clone(seen.Alternates), func(role *seenAlternate) bool { return role == alternates[0] })
	case database == nil || !c.ownsDatabase(seen):
		seen.Role = nil
	case c.unheld(seen) == c.Owner:
		held := *role
		held.Held = true
		seen.Role = &held
	case c.unheld(seen) != "":
		held := *seen.alternate(c.unheld(seen))
		held.Held = true
		seen = seen.withAlternate(&held)
	case database.Template:
		plain := *database
		plain.Template = false
		seen.Database = &plain
	default:
		seen.Database = nil
	}
	return seen
}
