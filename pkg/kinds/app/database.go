package app

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/kinds"
)

// Kinds that databaseRef can name.
const (
	kindDatabase         = "Database" // the default
	kindExternalDatabase = "ExternalDatabase"
)

// databases finds the Databases and ExternalDatabases that Apps name.
type databases struct {
	informers map[string]cache.SharedIndexInformer // by kind
	apps      references.Index
	// synced reports whether the cache of a kind has synced. The controller of Apps does not wait for these caches, so
	// that it also works in a cluster without the API of Databases.
	synced func(kind string) bool
}

func newDatabases(
	c kinds.Cluster, apps cache.SharedIndexInformer, hasSynced func(cache.SharedIndexInformer) bool,
) (*databases, error) {
	index, err := references.NewIndex(apps, "databases", func(app *v1alpha1.App) []string {
		if app.Spec.DatabaseRef == nil {
			return nil
		}
		kind, name := databaseOf(app)
		return []string{indexKey(kind, app.Namespace, name)}
	})
	if err != nil {
		return nil, err
	}
	own := c.Kinds.Windlass().V1alpha1()
	informers := map[string]cache.SharedIndexInformer{
		kindDatabase: own.Databases().Informer(), kindExternalDatabase: own.ExternalDatabases().Informer(),
	}
	return &databases{informers, index, func(kind string) bool { return hasSynced(informers[kind]) }}, nil
}

// databaseOf returns the kind and name of the database that databaseRef names.
func databaseOf(app *v1alpha1.App) (kind, name string) {
	return cmp.Or(app.Spec.DatabaseRef.Kind, kindDatabase), app.Spec.DatabaseRef.Name
}

// References returns the References to the databases.
func (d *databases) References() (all []controller.Reference) {
	for kind, informer := range d.informers {
		all = append(all,
			controller.Reference{Informer: informer, Optional: true, Referrers: func(obj metav1.Object) []controller.Key {
				return d.apps.Find(indexKey(kind, obj.GetNamespace(), obj.GetName()))
			}})
	}
	return all
}

// get returns the cached database that an App names, or nil.
func (d *databases) get(app *v1alpha1.App) controller.Object {
	kind, name := databaseOf(app)
	if informer, ok := d.informers[kind]; ok { // the schema does not allow another kind
		found, _, err := informer.GetStore().GetByKey(cache.NewObjectName(app.Namespace, name).String())
		if db, ok := found.(controller.Object); ok && err == nil {
			return db
		}
	}
	return nil
}

// check returns an error if the Deployment of an App must stay as it is because of databaseRef:
//   - The connection Secret belongs to another database. The error is Stalled.
//   - The database was not found, or is being deleted.
//   - The database is not Ready, and the App has no Deployment yet. Its Pods could not log in.
//
// inputs has the cached versions of the inputs. deployed reports whether the App has a Deployment. If the Secret of an
// existing database is missing, check returns nil, because observe reports missing Secrets.
//
// A Database and an ExternalDatabase of the same name have Secrets of the same name. A Secret that no Windlass object
// controls was created by a user: check accepts it.
func (d *databases) check(app *v1alpha1.App, inputs versions, deployed bool) error {
	if app.Spec.DatabaseRef == nil {
		return nil
	}
	kind, name := databaseOf(app)
	secret := input{kind: kindSecret, name: connectionSecret(app)}
	found := inputs[secret.String()]
	owner := ownerOf(found)
	switch {
	case found == nil && d.get(app) == nil && d.synced(kind):
		return messageNoDatabase.Wait(missingRecheck, kind, name)
	case owner == nil: // the Secret is missing, which observe reports, or no Windlass object controls it
		return nil
	case owner.Kind != kind || owner.Name != name:
		return controller.Stalled(messageOtherDatabase.Error(secret.name, owner.Kind, owner.Name, kind, name), 0)
	}
	db := d.get(app)
	switch {
	case db == nil && d.synced(kind):
		return controller.Warn(messageDatabaseMissing.Wait(missingRecheck, kind, name))
	case db != nil && db.GetDeletionTimestamp() != nil:
		return controller.Warn(messageDatabaseTerminating.Wait(0, kind, name))
	case !deployed && (db == nil || !conditions.IsTrue(*db.StatusConditions(), conditions.Ready)):
		return messageDatabaseNotReady.Wait(0, kind, name, notReadyBecause(db))
	}
	return nil
}

// notReadyBecause returns why a database is not Ready: the reason in parentheses, or "".
func notReadyBecause(db controller.Object) string {
	if db == nil {
		return ""
	}
	if ready := conditions.Find(*db.StatusConditions(), conditions.Ready); ready != nil {
		return fmt.Sprintf(" (the reason of its condition Ready is %s)", ready.Reason)
	}
	return ""
}

// ownerOf returns the controller reference of a Secret if it refers to an object of Windlass, or nil.
func ownerOf(secret controller.Versioned) *metav1.OwnerReference {
	object, ok := secret.(metav1.ObjectMetaAccessor)
	if !ok {
		return nil
	}
	owner := metav1.GetControllerOfNoCopy(object.GetObjectMeta())
	if owner == nil || schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group != v1alpha1.GroupName {
		return nil
	}
	return owner
}
