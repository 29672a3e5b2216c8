package database

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

// rotation is the state of a rotation in one reconcile. A rotation has these steps, each in a reconcile of its own:
//
//  1. prepare: the settings get a new password for the login that is not in use.
//  2. move: the server accepts this password, and the connection Secret gets the login with the password.
//  3. retire: no known client uses the previous login any more, and the settings end this login.
type rotation struct {
	credentials.Rotation
	step credentials.Step
}

// rotate decides the next step of the rotation, and thus which logins the settings have. Before a step that ends or
// replaces a login, rotate reads the Database and its connection Secret from the API server, because the decision
// depends on both.
func (r *reconciler) rotate(ctx context.Context, p *scope) error {
	p.db.Status.Binding = &v1alpha1.SecretBinding{Name: p.secret.Name}
	if err := checkPassword(p.secret); err != nil {
		return err
	}
	now, of := r.clock.Now(), &p.rotation
	of.Schedule, of.Record = credentials.ScheduleOf(p.db), credentials.RecordOf(p.secret, now)
	settings, err := r.settings.Type().Cache.Get(p.db.Namespace, settingsName(p.db))
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil || !p.Owns(settings) {
		settings = nil
	}
	var moved bool
	p.logins, moved = loginsIn(p.db.Spec.Owner, p.secret, settings)
	if p.logins.other.state == loginPassword {
		of.WaitingFor = messageAwaitServer.With(p.logins.other.name)
		return nil
	}
	users := func() []string { return r.users(p.secret) }
	of.step = of.Step(p.logins.other.state == loginKeep, users, now, resync)
	if moved || of.step != credentials.Rest {
		if err := of.Confirm(ctx, p.Owner, *r.connection.Type(), p.secret); err != nil {
			return err
		}
	}
	other := &p.logins.other
	switch of.step {
	case credentials.Retire:
		other.state, of.RequeueAfter = loginNone, credentials.Recheck // the next rotation may be due
	case credentials.Rotate:
		other.state, other.password = loginPassword, credentials.NewPassword()
		of.WaitingFor = messageAwaitServer.With(other.name)
	}
	return nil
}

// move stores the next login in the connection Secret, if the operator has logged in with it.
func (r *reconciler) move(ctx context.Context, p *scope) error {
	next, of := p.logins.other, &p.rotation
	if next.state != loginPassword {
		return nil
	}
	if !p.proven {
		of.WaitingFor = p.obstacle(of.WaitingFor)
		return nil
	}
	desired := func(record credentials.Record) *corev1.Secret { return desiredSecret(p.db, p.encryption, next, record) }
	if err := of.Store(ctx, p.Owner, *r.connection.Type(), p.secret, r.clock.Now(), desired); err != nil {
		return err
	}
	previous := login{name: p.logins.current.name, state: loginKeep}
	note := messageRotated.Note(p.secret.Name, next.name, previous.name)
	r.events.Event(p.db, corev1.EventTypeNormal, note.Reason, note.Message)
	p.logins, of.RequeueAfter = logins{next, previous}, credentials.Recheck
	return nil
}

// obstacle returns what prevents the operator from logging in with the next password, or usual if no cause is known.
func (p *scope) obstacle(usual string) string {
	switch {
	case settingsProblem(p.db) != nil:
		return messageAwaitProblem.With()
	case p.runsNewest() && p.settling == 0:
		return messageAwaitProof.With(p.logins.other.name)
	}
	return usual
}

// settingsApplied is called after the settings Secret was applied. It records an Event if the settings end a login.
func (r *reconciler) settingsApplied(p *scope, settings *corev1.Secret) {
	p.settings = settings
	if p.rotation.step == credentials.Retire {
		note := messageRetired.Note(p.logins.other.name)
		r.events.Event(p.db, corev1.EventTypeNormal, note.Reason, note.Message)
	}
}

// setCredentials sets status.credentials. It returns the time until the next step of the rotation, or 0 if the resync
// comes early enough.
func (p *scope) setCredentials() time.Duration {
	of := &p.rotation
	if p.logins.other.state == loginKeep {
		of.Previous = p.logins.other.name
	}
	p.db.Status.Credentials = of.Status(p.db.Spec.Credentials, p.db.Spec.Owner, p.logins.current.name)
	return of.Again(resync)
}
