package externaldatabase

import (
	"cmp"
	"context"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/conditions"
	windlassclient "windlass.dev/windlass/pkg/generated/clientset/versioned/typed/windlass/v1alpha1"
	listers "windlass.dev/windlass/pkg/generated/listers/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
)

// server is a PostgreSQL server: see postgresql.Server. A reconcile opens a server and closes it.
type server interface {
	// Exists reports whether the database exists, and whether the role and the database are in the desired
	// state.
	Exists(ctx context.Context, want postgresql.Want) (postgresql.Found, error)
	// Ensure brings the role and the database to the desired state, or continues an interrupted creation. It returns the
	// identity of the database, even with an error if the database exists.
	Ensure(ctx context.Context, want postgresql.Want) (postgresql.ID, error)
	// Rotate gives the login in want, which clients do not use yet, a new password, and logs in with it.
	Rotate(ctx context.Context, want postgresql.Want) error
	// Retire makes the roles other than the login in want unable to log in, and ends their sessions.
	Retire(ctx context.Context, want postgresql.Want) error
	// Delete deletes the roles and the database if they belong to the ExternalDatabase.
	Delete(ctx context.Context, want postgresql.Want) error
	// Close closes all connections.
	Close()
}

// reconciler reconciles ExternalDatabases.
type reconciler struct {
	secrets     children.Type[*corev1.Secret]
	connections *connections
	// open returns the server at the address in admin, for an object in namespace. open does not connect. Slow servers of
	// a namespace do not delay the objects in other namespaces.
	open func(namespace string, admin postgresql.Settings) server
	// live reads an ExternalDatabase from the API server before the operator creates or deletes its database,
	// or creates or adopts its Secret.
	live windlassclient.WindlassV1alpha1Interface
	// databases reads Databases from the cache.
	databases listers.DatabaseLister
	// claims reads the volume of a Database from the API server.
	claims coreclient.PersistentVolumeClaimsGetter
	// unavailable remembers the servers that have not been available yet, each with its connection Secret.
	unavailable *controller.Rejections[controller.Key]
	clock       clock.PassiveClock
	// users returns the known users of the previous login of a Secret.
	users  credentials.Users
	events controller.EventRecorder
	// stored reads the Secrets without the writes of a plan. It is nil without a plan.
	stored coreclient.SecretsGetter
}

// scope holds the state that the steps of one reconcile share.
type scope struct {
	db       *v1alpha1.ExternalDatabase
	owner    children.Owner
	admin    postgresql.Settings
	secret   *corev1.Secret // the owner's Secret, as readSecret has read it
	login    generation     // the login and the password in the Secret
	rotation rotation
	// broken says why clients cannot use the database, or is nil if they can. A rotation may continue in both cases.
	broken error
	// missing is true if the database was dropped.
	missing bool
}

func newScope(db *v1alpha1.ExternalDatabase) *scope {
	p := &scope{db: db, owner: children.Owner{Object: db, Kind: groupVersionKind}}
	p.owner.ChildLabels, p.owner.ChildAnnotations = db.Spec.Metadata.Maps()
	p.rotation.Schedule = credentials.ScheduleOf(db)
	return p
}

// Reconcile implements controller.Reconciler. Before it sends the password to the server, it stores the
// password in the Secret and the name of the Secret in the status. A failure therefore leaves no unknown
// password on the server, and Finalize knows that the server may have a database.
func (r *reconciler) Reconcile(ctx context.Context, db *v1alpha1.ExternalDatabase) (controller.Result, error) {
	p := newScope(db)
	p.owner.Live = sync.OnceValues(func() (metav1.Object, error) {
		return r.live.ExternalDatabases(db.Namespace).Get(ctx, db.Name, metav1.GetOptions{})
	})
	for _, step := range []func(context.Context, *scope) error{
		r.connection,
		r.awaitDatabase,
		r.readSecret,
		r.database,
		r.credentials,
	} {
		if err := step(ctx, p); err != nil {
			setBlocked(db, err)
			return controller.Result{}, err
		}
	}
	again := p.setCredentials()
	if p.broken != nil {
		setBlocked(db, p.broken)
		return controller.Result{}, p.broken
	}
	setReady(db)
	return controller.Result{RequeueAfter: again}, nil
}

func (r *reconciler) connection(ctx context.Context, p *scope) (err error) {
	p.admin, err = r.connections.get(ctx, connectionKey(p.db))
	return err
}

// awaitDatabase waits while a Database starts, if connectionSecretRef names the Secret of this Database. A connection
// to a starting server can time out, and package postgresql then makes no further connection for up to 30 s.
// awaitDatabase does not wait for a Database that is Degraded, paused or being deleted, because its server may respond.
func (r *reconciler) awaitDatabase(_ context.Context, p *scope) error {
	if p.db.Status.ExternalID != "" {
		return nil // the server has the database
	}
	name := r.serverDatabase(p)
	database, err := r.databases.Databases(p.db.Namespace).Get(name)
	if err != nil || database.DeletionTimestamp != nil {
		return nil
	}
	for _, condition := range []string{conditions.Ready, conditions.Degraded, conditions.Paused} {
		if conditions.IsTrue(database.Status.Conditions, condition) {
			return nil
		}
	}
	return messageDatabaseNotReady.Wait(awayRetry, name) // events of a Database that is not Ready cause no reconcile
}

// readSecret reads the login and the password from the Secret, and generates a password if there is none. It does
// not change the data of a Secret that has a password, because the operator has not verified yet that it is
// connected to the right server.
func (r *reconciler) readSecret(ctx context.Context, p *scope) error {
	secrets := r.secretsOf(p)
	secret, err := secrets.Cache.Get(p.db.Namespace, credentials.Name(p.db.Name))
	if err != nil || !p.owner.Owns(secret) || secret.DeletionTimestamp != nil ||
		len(secret.Data[credentials.KeyPassword]) == 0 {
		if secret, err = secrets.Ensure(ctx, p.owner, newSecret(p.db, p.admin), nil); err != nil {
			return err
		}
	} else if p.owner.Orphaned(secret) { // because Finalize does not delete the database of an orphaned Secret
		if secret, err = secrets.Reclaim(ctx, p.owner, secret); err != nil {
			return err
		}
	}
	p.secret, p.login = secret, generationIn(p.db, secret)
	if err := checkPassword(secret); err != nil {
		return err
	}
	if p.db.Status.Binding == nil {
		p.db.Status.Binding = &v1alpha1.SecretBinding{Name: secret.Name}
		p.db.Status.ServerDatabase = r.serverDatabase(p)
		return messageCreating.Wait(controller.Soon, strconv.Quote(p.db.Owner()), strconv.Quote(p.db.Spec.DatabaseName))
	}
	return nil
}

// secretsOf returns the type of the Secret, which keeps its login and password.
func (r *reconciler) secretsOf(p *scope) children.Type[*corev1.Secret] {
	secrets := r.secrets
	secrets.Keep = credentials.Keep(p.db.Owner(), r.clock.Now())
	return secrets
}

// credentials updates the Secret. If another client has changed the login or the password in the Secret during the
// reconcile, credentials returns an error. The next reconcile then sets the password on the server.
func (r *reconciler) credentials(ctx context.Context, p *scope) error {
	if p.rotation.next != nil {
		return r.storeNext(ctx, p)
	}
	if p.broken != nil {
		return nil // the connection is not proven
	}
	secrets := r.secretsOf(p)
	secret, err := secrets.Ensure(ctx, p.owner, newSecret(p.db, p.admin), nil)
	if err != nil {
		return err
	}
	if generationIn(p.db, secret) != p.login {
		return messagePasswordChanged.Wait(creationDelay, secret.Name)
	}
	return nil
}

// database brings the roles and the database on the server to the desired state, and continues a rotation. A rotation
// continues even if the login in the Secret does not work, or if the database was dropped. The user of a leaked login
// can cause both.
func (r *reconciler) database(ctx context.Context, p *scope) error {
	if err := r.vet(ctx, p.db, p.admin, p.login.password); err != nil {
		return err
	}
	server := r.open(p.db.Namespace, p.admin)
	defer server.Close()
	want := desiredDatabase(p.db, p.login)
	found, err := server.Exists(ctx, want)
	switch {
	case err != nil:
		return r.explain(ctx, p.db, err)
	case found.ID == "" && want.ID != "":
		if p.broken, p.missing = gone(p.db), true; found.Previous == "" {
			return p.broken
		}
		return r.rotate(ctx, p, server, found.Previous)
	case found.ID == "" || !found.Current:
		if err := p.rotation.Confirm(ctx, p.owner, r.secrets, p.secret); err != nil {
			return err
		}
		var id postgresql.ID
		id, err = server.Ensure(ctx, want)
		found.ID = cmp.Or(id, found.ID)
	}
	if found.ID != "" { // the database exists, even if Ensure failed afterwards
		// A change of serverDatabase alone causes no status write, so serverDatabase is set only if the ID or the conditions
		// change.
		if string(found.ID) != p.db.Status.ExternalID || !conditions.IsTrue(p.db.Status.Conditions, conditions.Ready) {
			p.db.Status.ServerDatabase = r.serverDatabase(p)
		}
		p.db.Status.ExternalID = string(found.ID)
	}
	if err != nil {
		p.broken = r.explain(ctx, p.db, err)
		if class := postgresql.ClassOf(err); found.ID == "" || class == postgresql.Busy || class == postgresql.Silent {
			return p.broken
		}
	}
	return r.rotate(ctx, p, server, found.Previous)
}

func connectionKey(db *v1alpha1.ExternalDatabase) controller.Key {
	return controller.Key{Namespace: db.Namespace, Name: db.Spec.ConnectionSecretRef.Name}
}
