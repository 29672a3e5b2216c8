package externaldatabase

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/internal/children"
	"windlass.dev/windlass/pkg/controller/internal/credentials"
	windlassclient "windlass.dev/windlass/pkg/generated/clientset/versioned/typed/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/postgresql"
)

// server is a PostgreSQL server, see postgresql.Server. Each reconcile opens one.
type server interface {
	// Exists finds out whether what is wanted is there, and as it shall be.
	Exists(ctx context.Context, want postgresql.Want) (postgresql.Found, error)
	// Create makes it, or goes on where it was cut off, and returns its identity.
	Create(ctx context.Context, want postgresql.Want) (postgresql.ID, error)
	// Update puts right what differs.
	Update(ctx context.Context, want postgresql.Want) error
	// Delete deletes it, if it is still the one that want.ID tells.
	Delete(ctx context.Context, want postgresql.Want) error
	// Close ends all connections.
	Close()
}

// reconciler is the kind ExternalDatabase.
type reconciler struct {
	secrets     children.Type[*corev1.Secret]
	connections *connections
	// open returns the server that settings lead to, which a namespace names. It does not
	// connect yet. It keeps a server that is slow from holding workers.
	open func(namespace string, admin postgresql.Settings) server
	// live reads an ExternalDatabase before its database is made or deleted, and before a
	// child is made again.
	live windlassclient.ExternalDatabasesGetter
}

// scope is what the steps of one reconcile share.
type scope struct {
	db       *v1alpha1.ExternalDatabase
	owner    children.Owner
	admin    postgresql.Settings
	password string
}

func newScope(db *v1alpha1.ExternalDatabase) *scope {
	return &scope{db: db, owner: children.Owner{Object: db, Kind: groupVersionKind}}
}

// Reconcile implements controller.Reconciler. The password is in the Secret before the
// server hears of it, so that no fault leaves one that nobody knows; and that there is
// one is in the status before, so that a deletion knows that the server may have.
func (r *reconciler) Reconcile(ctx context.Context, db *v1alpha1.ExternalDatabase) (controller.Result, error) {
	p := newScope(db)
	p.owner.Live = children.Once(func(ctx context.Context) (metav1.Object, error) {
		return r.live.ExternalDatabases(db.Namespace).Get(ctx, db.Name, metav1.GetOptions{})
	})
	for _, step := range []func(context.Context, *scope) error{
		r.connection,
		r.newPassword,
		r.database,
		r.credentials,
	} {
		if err := step(ctx, p); err != nil {
			setBlocked(db, err)
			return controller.Result{}, err
		}
	}
	setReady(db)
	return controller.Result{}, nil
}

func (r *reconciler) connection(ctx context.Context, p *scope) (err error) {
	p.admin, err = r.connections.get(ctx, connectionKey(p.db))
	return err
}

// newPassword makes the password, once. A Secret that is there stays as it is until the
// server has shown that it is the right one.
func (r *reconciler) newPassword(ctx context.Context, p *scope) error {
	secret, err := r.secrets.Cache.Get(p.db.Namespace, credentials.Name(p.db.Name))
	if err != nil || !p.owner.Owns(secret) || secret.DeletionTimestamp != nil || len(secret.Data[credentials.KeyPassword]) == 0 {
		if secret, err = r.secrets.Ensure(ctx, p.owner, desiredSecret(p.db, p.admin, credentials.NewPassword()), nil); err != nil {
			return err
		}
	} else if p.owner.Orphaned(secret) { // as it must be found when the ExternalDatabase is deleted
		if secret, err = r.secrets.Reclaim(ctx, p.owner, secret); err != nil {
			return err
		}
	}
	p.password = string(secret.Data[credentials.KeyPassword])
	if err := checkPassword(secret); err != nil {
		return err
	}
	if p.db.Status.Binding == nil {
		p.db.Status.Binding = &v1alpha1.SecretBinding{Name: secret.Name}
		return controller.StoreFirst(reasonCreating, "Role and database are about to be made.")
	}
	return nil
}

// credentials has the Secret say how to connect. Its password may be another by now than
// the server has.
func (r *reconciler) credentials(ctx context.Context, p *scope) error {
	secret, err := r.secrets.Ensure(ctx, p.owner, desiredSecret(p.db, p.admin, credentials.NewPassword()), nil)
	if err != nil {
		return err
	}
	if string(secret.Data[credentials.KeyPassword]) != p.password {
		return controller.WaitFor(reasonPasswordChanged, fmt.Sprintf("The server is about to get the new password of Secret %s.", secret.Name), creationDelay)
	}
	return nil
}

// database has the server keep what the spec says.
func (r *reconciler) database(ctx context.Context, p *scope) error {
	server := r.open(p.db.Namespace, p.admin)
	defer server.Close()
	want := desiredDatabase(p.db, p.password)
	found, err := server.Exists(ctx, want)
	switch {
	case err != nil:
		return explain(ctx, p.db, err)
	case found.ID == "" && want.ID != "":
		return gone(p.db)
	case found.ID == "":
		// By a cache that is behind, a process that has just started could make again what
		// its predecessor has deleted, and nobody would ever delete that.
		if err := p.owner.Recheck(ctx, "anything is made on the server"); err != nil {
			return err
		}
		found.ID, err = server.Create(ctx, want)
	case !found.Current:
		err = server.Update(ctx, want)
	}
	if found.ID != "" { // whatever else failed, it is there
		p.db.Status.ExternalID = string(found.ID)
	}
	if err != nil {
		return explain(ctx, p.db, err)
	}
	return nil
}

func connectionKey(db *v1alpha1.ExternalDatabase) controller.Key {
	return controller.Key{Namespace: db.Namespace, Name: db.Spec.ConnectionSecretRef.Name}
}
