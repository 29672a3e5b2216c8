package postgresql

import (
	"context"
	"fmt"
)

// step is a step to a state: one statement, or several in one transaction. The zero value means that no step is left.
type step struct {
	sql string
	// does describes the step in errors.
	does string
	// setsPassword is true if the step sets the password of the login.
	setsPassword bool
	// alters is the name of the role whose attributes the step may change, or "".
	alters string
	// inside is true if the step is executed in the desired database.
	inside bool
	// unlocks is the SQL that ends the sessions of a role that may hold a lock that the step needs, or "".
	unlocks string
}

// maxUnlocks limits how often a step is tried again because clients lock what it needs: a client may log in again
// before the step has taken away its login.
const maxUnlocks = 3

// maxSteps is more than the number of steps from any state to the desired state.
const maxSteps = 16

// steps lead to a state.
type steps struct {
	// next returns the next step.
	next func(sight) (step, error)
	// failed returns the error of a step for the state that next returned the step for.
	failed func(sight, step, error) error
	// after returns the state after the step that next returned for a state. Only a plan uses it.
	after func(sight) sight
}

// converge executes steps until there are none, and returns the state that it observed last. It queries the state
// before each step, and calls done after each step.
func (s *Server) converge(ctx context.Context, w Want, to steps, done func(step)) (seen sight, err error) {
	retried := false
	for range maxSteps {
		if seen, err = s.lookAsAdmin(ctx, w); err != nil {
			return seen, err
		}
		next, err := to.next(seen)
		if err != nil || next.sql == "" {
			return seen, err
		}
		if s.plan(next.sql) {
			s.predict(w, to.after(seen))
		} else if err := s.execute(ctx, w, next); isCode(err, codeInternal) && !retried {
			retried = true // another session changed the same row ("tuple concurrently updated")
			continue
		} else if err != nil {
			return seen, to.failed(seen, next, err)
		}
		done(next)
	}
	return seen, notConverged(w, seen)
}

// notConverged returns the error for a state that maxSteps steps did not reach.
func notConverged(w Want, seen sight) error {
	c := change{Want: w}
	if role, found := c.former(seen); found && !role.Login {
		return NewError(Away, "sessions of role %q have not ended yet", role.name)
	}
	return fmt.Errorf("role %q and database %q do not reach their desired state: another client keeps changing them, or another role has granted PUBLIC a privilege that only this role can revoke", w.Owner, w.Database)
}

// execute executes a step as the administrator. If the step waits for a lock in vain, execute tries it again with
// next.unlocks, in one transaction: the step is then the first in the queue for the lock.
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
