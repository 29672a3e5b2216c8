package postgresql

import (
	"context"
	"fmt"
)

// step is one step to the desired state: one statement, or several in one transaction. The zero value means that no
// step is left.
type step struct {
	sql string
	// does describes the step in errors.
	does string
	// setsPassword is true if the step sets the password of the login.
	setsPassword bool
	// alters is the name of the role whose attributes the step may change, or "".
	alters string
	// inside is true if the step is executed in a session in the desired database.
	inside bool
	// unlocks is the SQL that ends the sessions of the role whose clients may hold a lock that the step needs, or "".
	unlocks string
	// then changes a state as the step changes the server. Only a plan calls then.
	then func(*state)
}

// maxUnlocks limits how often a step is retried because clients hold a lock that the step needs. After its session was
// ended, a client can log in and take the lock again until the step has changed the login.
const maxUnlocks = 3

// maxSteps is more than the number of steps from any state to the desired state.
const maxSteps = 16

// converge executes the steps that nextStep returns, until nextStep returns none. It queries the state before each
// step, and returns the state that it observed last.
func (s *Server) converge(
	ctx context.Context, c *change, nextStep func(*change, state) (step, error),
) (seen state, err error) {
	retried := false
	for range maxSteps {
		if seen, err = s.lookAsAdmin(ctx, c.Want); err != nil {
			return seen, err
		}
		next, err := nextStep(c, seen)
		if err != nil || next.sql == "" {
			return seen, err
		}
		if s.plan(next.sql) {
			next.then(&seen)
			s.predict(c.Want, seen)
		} else if err := s.execute(ctx, c.Want, next); isCode(err, codeInternal) && !retried {
			retried = true // another session changed the same row ("tuple concurrently updated")
			continue
		} else if err != nil {
			return seen, c.unalterable(seen, next, err)
		}
		c.newPassword = c.newPassword && !next.setsPassword
	}
	if role := c.previous(seen); role != nil && !role.Login {
		return seen, NewError(Away, "sessions of role %q have not ended yet", role.Name)
	}
	return seen, fmt.Errorf("role %q and database %q do not reach their desired state: another client keeps changing "+
		"them, or another role has granted PUBLIC a privilege that only the granting role can revoke", c.Owner, c.Database)
}

// execute executes a step as the administrator. If the step does not get a lock within lock_timeout, execute retries
// the step after next.unlocks in the same transaction. The step is then the first in the queue for the lock.
func (s *Server) execute(ctx context.Context, w Want, next step) error {
	database := s.home(w)
	if next.inside {
		database = w.Database
	}
	admin, err := s.administrator(ctx, database)
	if err != nil {
		return err
	}
	err = admin.exec(ctx, next.sql)
	for tries := 0; next.unlocks != "" && isCode(err, codeLocked) && tries < maxUnlocks; tries++ {
		err = admin.exec(ctx, next.unlocks+"; "+next.sql)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", next.does, err)
	}
	return nil
}
