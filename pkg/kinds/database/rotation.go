package database

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

const (
	// moveRecheck is when a Database is reconciled after its connection Secret got another login.
	moveRecheck = time.Second
)

// rotation is the state of a rotation in one reconcile. A rotation has these steps, each in a reconcile of its own:
//
//  1. prepare: the settings get a new password for the login that is not in use.
//  2. move: the server accepts this password, and the connection Secret gets it with its login.
//  3. retire: the former login is not used any more, and the settings end it.
type rotation struct {
	schedule credentials.Schedule
	record   credentials.Record
	step     credentials.Step
	// waitingFor says what the rotation waits for, or is "".
	waitingFor string
	// requeueAfter is when the rotation has to go on. Zero means that no time is known.
	requeueAfter time.Duration
}

// rotate decides the next step of the rotation, and with it which logins the settings have. It reads the Secrets that the
// decision depends on from the API server before a step that ends or replaces a login.
func (r *reconciler) rotate(ctx context.Context, p *scope) error {
	now, of := r.clock.Now(), &p.rotation
	of.schedule = credentials.ScheduleOf(p.db.Spec.Credentials, p.db.Annotations)
	of.record = credentials.RecordOf(p.secret, now)
	settings, err := r.settings.Cache.Get(p.db.Namespace, settingsName(p.db))
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil || !p.owner.Owns(settings) {
		settings = nil
	}
	var moved bool
	p.logins, moved = loginsIn(p.db.Spec.Owner, p.secret, settings)
	if p.logins.other.state == loginPassword {
		of.waitingFor = messageAwaitServer.With(p.logins.other.name)
		return nil
	}
	var using []string
	of.step, using = of.schedule.Step(of.record, p.logins.other.state == loginKeep, func() []string { return r.users(p.secret) }, now)
	if moved || of.step == credentials.Retire || of.step == credentials.Rotate {
		if err := r.confirm(ctx, p); err != nil {
			return err
		}
	}
	of.follow(p, using, now)
	return nil
}

// follow changes the logins as the step says.
func (of *rotation) follow(p *scope, using []string, now time.Time) {
	other := &p.logins.other
	switch of.step {
	case credentials.AwaitGrace:
		ends := of.schedule.Retires(of.record)
		of.waitingFor, of.requeueAfter = credentials.GraceUntil(ends), ends.Sub(now)
	case credentials.AwaitUsers:
		of.waitingFor, of.requeueAfter = credentials.Named(using), of.schedule.UsersRecheck(of.record, now, resync)
	case credentials.Retire:
		other.state, of.requeueAfter = loginNone, moveRecheck // the next rotation may be due
	case credentials.Rotate:
		other.state, other.password = loginPassword, credentials.NewPassword()
		of.waitingFor = messageAwaitServer.With(other.name)
	case credentials.Rest:
		if at, ok := of.schedule.Next(of.record); ok {
			of.requeueAfter = at.Sub(now)
		}
	}
}

// confirm returns an error if the Database is being deleted, or if its schedule or the connection Secret differs from the
// cached one: a process that has just started could otherwise rotate for a request that was withdrawn, or end the login to
// which another process has moved the clients.
func (r *reconciler) confirm(ctx context.Context, p *scope) error {
	if err := p.owner.Recheck(ctx); err != nil {
		return err
	}
	current, err := p.owner.Live(ctx)
	if err != nil {
		return err
	}
	db, ok := current.(*v1alpha1.Database)
	if ok && credentials.ScheduleOf(db.Spec.Credentials, db.Annotations) != p.rotation.schedule {
		return controller.Postpone(moveRecheck)
	}
	live, found, err := r.secrets.Live(ctx, p.owner, p.secret.Name)
	if err != nil {
		return err
	}
	if !found || live.ResourceVersion != p.secret.ResourceVersion {
		return controller.Postpone(moveRecheck)
	}
	return nil
}

// move gives the connection Secret the next login, once the operator has logged in with it, and records the rotation, in one write. Its
// precondition is the version of the Secret with which the reconcile began.
func (r *reconciler) move(ctx context.Context, p *scope) error {
	next, of := p.logins.other, &p.rotation
	if next.state != loginPassword {
		return nil
	}
	if !p.proven {
		of.waitingFor = p.obstacle(of.waitingFor)
		return nil
	}
	now := r.clock.Now()
	record := credentials.Record{Rotated: now.Truncate(time.Second), Request: of.record.Request}
	if of.schedule.Request != "" {
		record.Request = of.schedule.Request
	}
	secrets := r.secrets
	secrets.Before = func(_ context.Context, live *corev1.Secret) error {
		if live.ResourceVersion != p.secret.ResourceVersion {
			return controller.Postpone(moveRecheck)
		}
		return nil
	}
	secret, err := secrets.Update(ctx, p.owner, desiredSecret(p.db, next, record))
	if err != nil {
		return err
	}
	former := login{name: p.logins.current.name, state: loginKeep}
	note := messageRotated.Note(secret.Name, next.name, former.name)
	r.events.Event(p.db, corev1.EventTypeNormal, note.Reason, note.Message)
	p.logins = logins{next, former}
	ends := of.schedule.Retires(record)
	of.record, of.waitingFor, of.requeueAfter = record, credentials.GraceUntil(ends), moveRecheck
	return nil
}

// obstacle returns what keeps the server from accepting the next password, or usual if nothing is known to.
func (p *scope) obstacle(usual string) string {
	switch {
	case refusal(p.db) != nil:
		return messageAwaitProblem.With()
	case p.runsNewest() && p.settling == 0:
		return messageAwaitProof.With(p.logins.other.name)
	}
	return usual
}

// retired records an Event after the settings have ended the former login.
func (r *reconciler) retired(_ context.Context, p *scope) error {
	if p.rotation.step == credentials.Retire {
		note := messageRetired.Note(p.logins.other.name)
		r.events.Event(p.db, corev1.EventTypeNormal, note.Reason, note.Message)
	}
	return nil
}

// setCredentials sets status.credentials. It returns when the rotation has to go on, or 0 if the resync is soon enough.
func (p *scope) setCredentials() time.Duration {
	of := p.rotation
	observed := credentials.Observed{Owner: p.db.Spec.Owner, Login: p.logins.current.name, Record: of.record, WaitingFor: of.waitingFor}
	if p.logins.other.state == loginKeep {
		observed.Former = p.logins.other.name
	}
	p.db.Status.Credentials = observed.Status(p.db.Spec.Credentials, of.schedule)
	if of.requeueAfter > resync+resync/10 { // the time of the resync varies by 10 %
		return 0
	}
	return of.requeueAfter
}

// secretsOf returns the type of the connection Secret of a Database, which keeps its login and password.
func (r *reconciler) secretsOf(db *v1alpha1.Database) children.Type[*corev1.Secret] {
	secrets := r.secrets
	secrets.Keep = credentials.Keep(db.Spec.Owner, r.clock.Now())
	return secrets
}
