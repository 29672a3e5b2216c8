package externaldatabase

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
)

// generation is a login and its password.
type generation struct{ name, password string }

// generationIn returns the generation in the owner's Secret.
func generationIn(db *v1alpha1.ExternalDatabase, secret *corev1.Secret) generation {
	return generation{
		credentials.LoginIn(secret, db.Owner(), recordedLogin(db)), string(secret.Data[credentials.KeyPassword]),
	}
}

// rotation is the state of a rotation in one reconcile.
type rotation struct {
	credentials.Rotation
	// next is set if the server accepts the next generation, which the Secret does not have yet.
	next *generation
}

// rotate continues a rotation, or begins a rotation that is due. previous is the login before the last rotation if it
// can still log in, or "". The ExternalDatabase stays Ready if a rotation fails, because the login in the Secret works.
func (r *reconciler) rotate(ctx context.Context, p *scope, server server, previous string) error {
	now, of := r.clock.Now(), &p.rotation
	of.Record, of.Previous = credentials.RecordOf(p.secret, now), previous
	users := func() []string { return r.users(p.secret) }
	step := of.Step(previous != "", users, now, resync)
	if step != credentials.Rest {
		if err := of.Confirm(ctx, p.owner, r.secrets, p.secret); err != nil {
			return err
		}
	}
	if step == credentials.Retire {
		if done, err := r.retire(ctx, p, server); err != nil || !done {
			return err
		}
		step = of.Step(false, users, now, resync)
	}
	if step != credentials.Rotate || p.missing { // without a database, no login can be checked
		return nil
	}
	return r.begin(ctx, p, server, generation{credentials.Next(p.db.Owner(), p.login.name), credentials.NewPassword()})
}

// retire retires all previous logins. done is false if this failed.
func (r *reconciler) retire(ctx context.Context, p *scope, server server) (done bool, err error) {
	of := &p.rotation
	if err := server.Retire(ctx, desiredDatabase(p.db, p.login)); err != nil {
		return false, r.block(p, err, messageRetirementBlocked.With(of.Previous, advised(err)))
	}
	if known := p.db.Status.Credentials; known != nil && known.PreviousUsername == of.Previous {
		r.event(p, corev1.EventTypeNormal, messageRetired.Note(of.Previous))
	}
	of.Previous = ""
	return true, nil
}

// begin gives the next login a new password on the server. Then the step credentials stores this login in the Secret.
// If the operator stops before that, the next reconcile retires the login, and begins again.
func (r *reconciler) begin(ctx context.Context, p *scope, server server, next generation) error {
	want := desiredDatabase(p.db, next)
	if want.ID == "" {
		want.ID = postgresql.ID(p.db.Status.ExternalID)
	}
	err := server.Rotate(ctx, want)
	class, statements := postgresql.ClassOf(err), postgresql.ConflictOf(err).Statements
	switch {
	case class == postgresql.Unproven:
		p.broken = controller.Warn(messageRotationUnproven.Wait(awayRetry, p.secret.Name, next.name, err))
	case class == postgresql.Taken && statements != "":
		return r.block(p, err, messageRotationTaken.With(err, statements))
	case err != nil:
		return r.block(p, err, messageRotationBlocked.With(advised(err), p.secret.Name))
	case controller.ReasonOf(p.broken) == reasonKept:
		p.broken = nil // the next login works
	}
	p.rotation.next = &next
	return nil
}

// block records in the status why a rotation does not continue. It also records an Event if the status does not have
// the same message already.
func (r *reconciler) block(p *scope, err error, message string) error {
	switch postgresql.ClassOf(err) {
	case postgresql.Busy:
		return controller.Postpone(postgresql.RetryAfter(err))
	case postgresql.Silent, postgresql.Away, postgresql.Other:
		p.rotation.RequeueAfter = awayRetry
	default:
		p.rotation.RequeueAfter = configurationRetry
	}
	p.rotation.WaitingFor = message
	if known := p.db.Status.Credentials; known == nil || known.WaitingFor != message {
		r.event(p, corev1.EventTypeWarning, controller.Note{Reason: reasonBlocked, Message: message})
	}
	return nil
}

// storeNext stores the next login and its password in the Secret.
func (r *reconciler) storeNext(ctx context.Context, p *scope) error {
	now, of, next := r.clock.Now(), &p.rotation, *p.rotation.next
	desired := func(record credentials.Record) *corev1.Secret { return desiredSecret(p.db, p.admin, next, record) }
	if err := of.Store(ctx, p.owner, r.secrets, p.secret, now, desired); err != nil {
		return err
	}
	of.Previous = p.login.name
	of.RequeueAfter = max(of.Schedule.Retires(of.Record).Sub(now), of.Schedule.UsersRecheck(of.Record, now, resync))
	r.event(p, corev1.EventTypeNormal, messageRotated.Note(p.secret.Name, next.name, of.Previous))
	p.login = next
	return nil
}

func (r *reconciler) event(p *scope, eventType string, note controller.Note) {
	r.events.Event(p.db, eventType, note.Reason, note.Message)
}

// setCredentials sets status.credentials. It returns the time until the next step of the rotation, or 0 if the next
// periodic check is early enough.
func (p *scope) setCredentials() time.Duration {
	p.db.Status.Credentials = p.rotation.Status(p.db.Spec.Credentials, p.db.Owner(), p.login.name)
	return p.rotation.Again(resync)
}
