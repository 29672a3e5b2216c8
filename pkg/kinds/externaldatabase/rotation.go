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
	return generation{credentials.LoginIn(secret, db.Owner(), recordedLogin(db)), string(secret.Data[credentials.KeyPassword])}
}

// rotation is the state of a rotation in one reconcile.
type rotation struct {
	schedule credentials.Schedule
	record   credentials.Record
	// next is set if the server accepts the next generation, which the Secret does not have yet.
	next *generation
	// former is the former login while it works, or "".
	former string
	// waitingFor says what the rotation waits for, or is "".
	waitingFor string
	// requeueAfter is when the rotation has to go on. Zero means that no time is known.
	requeueAfter time.Duration
}

// rotate continues a rotation, or begins a rotation that is due. former is the former login while it can log in, or "".
// The database stays Ready if a rotation fails, because the login in the Secret works.
func (r *reconciler) rotate(ctx context.Context, p *scope, server server, former string) error {
	now, of := r.clock.Now(), &p.rotation
	of.schedule, of.record = scheduleOf(p.db), credentials.RecordOf(p.secret, now)
	users := func() []string { return r.users(p.secret) }
	step, using := of.schedule.Step(of.record, former != "", users, now)
	if step == credentials.Retire || step == credentials.Rotate {
		if err := r.confirm(ctx, p); err != nil {
			return err
		}
		step, using = of.schedule.Step(of.record, former != "", users, now) // confirm has read the schedule
	}
	if step == credentials.Retire {
		if done, err := r.retire(ctx, p, server, former); err != nil || !done {
			return err
		}
		step, _ = of.schedule.Step(of.record, false, users, now)
	}
	switch step {
	case credentials.AwaitGrace:
		ends := of.schedule.Retires(of.record)
		of.former, of.waitingFor, of.requeueAfter = former, credentials.GraceUntil(ends), ends.Sub(now)
	case credentials.AwaitUsers:
		of.former, of.waitingFor, of.requeueAfter = former, credentials.Named(using), of.schedule.UsersRecheck(of.record, now, resync)
	case credentials.Rotate:
		if p.missing {
			return nil // there is no database to log in to
		}
		return r.begin(ctx, p, server, generation{credentials.Next(p.db.Owner(), p.login.name), credentials.NewPassword()})
	case credentials.Rest, credentials.Retire:
		if at, ok := of.schedule.Next(of.record); ok {
			of.requeueAfter = at.Sub(now)
		}
	}
	return nil
}

// retire retires all former logins. done is false if this failed.
func (r *reconciler) retire(ctx context.Context, p *scope, server server, former string) (done bool, err error) {
	if err := server.Retire(ctx, desiredDatabase(p.db, p.login)); err != nil {
		p.rotation.former = former
		return false, r.block(p, err, messageRetirementBlocked.With(former, advised(err)))
	}
	if known := p.db.Status.Credentials; known != nil && known.FormerUsername == former {
		r.event(p, corev1.EventTypeNormal, messageRetired.Note(former))
	}
	return true, nil
}

// begin gives the next login a new password on the server. The step credentials then stores it in the Secret. If the
// operator stops between these two, the next reconcile retires the login and begins again.
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

// confirm returns an error if the ExternalDatabase is being deleted, or if the Secret differs from the cached one. A
// process that has just started could otherwise create a database that another process has deleted, give a retired login
// back its password, or change the login to which another process has moved the clients. confirm also reads the schedule.
func (r *reconciler) confirm(ctx context.Context, p *scope) error {
	if err := p.owner.Recheck(ctx); err != nil {
		return err
	}
	current, err := p.owner.Live(ctx)
	if err != nil {
		return err
	}
	if db, ok := current.(*v1alpha1.ExternalDatabase); ok {
		p.rotation.schedule = scheduleOf(db)
	}
	live, found, err := r.secrets.Live(ctx, p.owner, p.secret.Name)
	if err != nil {
		return err
	}
	if !found || versionOf(live) != versionOf(p.secret) {
		return controller.Postpone(creationDelay)
	}
	return nil
}

// block records why a rotation does not go on. An Event follows if the status does not say so yet.
func (r *reconciler) block(p *scope, err error, message string) error {
	switch postgresql.ClassOf(err) {
	case postgresql.Busy:
		return controller.Postpone(postgresql.RetryAfter(err))
	case postgresql.Silent, postgresql.Away, postgresql.Other:
		p.rotation.requeueAfter = awayRetry
	default:
		p.rotation.requeueAfter = configurationRetry
	}
	p.rotation.waitingFor = message
	if known := p.db.Status.Credentials; known == nil || known.WaitingFor != message {
		r.event(p, corev1.EventTypeWarning, controller.Note{Reason: reasonBlocked, Message: message})
	}
	return nil
}

// storeNext moves the Secret to the next generation, and records the rotation, in one write. The precondition is the
// version of the Secret that the rotation began with.
func (r *reconciler) storeNext(ctx context.Context, p *scope) error {
	now, schedule, next := r.clock.Now(), p.rotation.schedule, *p.rotation.next
	secrets := r.secrets
	secrets.Before = func(_ context.Context, live *corev1.Secret) error {
		if versionOf(live) != versionOf(p.secret) {
			return controller.Postpone(creationDelay)
		}
		return nil
	}
	record := credentials.Record{Rotated: now.Truncate(time.Second), Request: p.rotation.record.Request}
	if schedule.Request != "" {
		record.Request = schedule.Request
	}
	secret, err := secrets.Update(ctx, p.owner, desiredSecret(p.db, p.admin, next, record))
	if err != nil {
		return err
	}
	former := p.login.name
	r.event(p, corev1.EventTypeNormal, messageRotated.Note(secret.Name, next.name, former))
	record.Created = secret.CreationTimestamp.Time
	ends := schedule.Retires(record)
	p.login, p.rotation = next, rotation{
		schedule: schedule, record: record, former: former, waitingFor: credentials.GraceUntil(ends), requeueAfter: max(ends.Sub(now), schedule.UsersRecheck(record, now, resync)),
	}
	return nil
}

func (r *reconciler) event(p *scope, eventType string, note controller.Note) {
	r.events.Event(p.db, eventType, note.Reason, note.Message)
}

// setCredentials sets status.credentials. It returns when the rotation has to go on, or 0 if the next periodic check is
// soon enough.
func (r *reconciler) setCredentials(p *scope) time.Duration {
	of := p.rotation
	observed := credentials.Observed{Owner: p.db.Owner(), Login: p.login.name, Record: of.record, Former: of.former, WaitingFor: of.waitingFor}
	p.db.Status.Credentials = observed.Status(p.db.Spec.Credentials, of.schedule)
	if of.requeueAfter == 0 || of.requeueAfter > resync+resync/10 { // the time of the periodic check varies by 10 %
		return 0
	}
	return max(of.requeueAfter, creationDelay)
}
