package externaldatabase

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

// serverDatabase returns the name of the Database whose server has the role and the database, or "" for any other
// server. The Database must control the connection Secret, in which the host must be the Service of the Database.
func (r *reconciler) serverDatabase(p *scope) string {
	name := r.databaseOf(connectionKey(p.db))
	if p.admin.Host != name+"."+p.db.Namespace+".svc" {
		return ""
	}
	return name
}

// databaseOf returns the name of the Database that controls a connection Secret, or "".
func (r *reconciler) databaseOf(key controller.Key) string {
	name, isCredentials := strings.CutSuffix(key.Name, credentials.Name(""))
	secret, err := r.secrets.Cache.Get(key.Namespace, key.Name)
	if err != nil || !isCredentials {
		return "" // a Secret that the operator did not create is not in this cache
	}
	owner := metav1.GetControllerOf(secret)
	if owner == nil || owner.APIVersion != v1alpha1.SchemeGroupVersion.String() || owner.Kind != "Database" ||
		owner.Name != name {
		return ""
	}
	return name
}

// goesWithVolume reports whether both the Database in the status and its volume are deleted or being deleted, for
// example with the namespace. In this case, the server may not run any more, and the role and the database are deleted
// with the volume.
//
// goesWithVolume reads the Database and its claim from the API server, because the caches may lack objects. live is the
// ExternalDatabase from the API server. Its status is reliable, because users cannot write the status. If
// connectionSecretRef does not name the Secret of the Database in the status, the role and the database may be on
// another server.
func (r *reconciler) goesWithVolume(ctx context.Context, live *v1alpha1.ExternalDatabase) (bool, error) {
	name := live.Status.ServerDatabase
	if name == "" || live.Spec.ConnectionSecretRef.Name != credentials.Name(name) {
		return false, nil
	}
	database, err := r.live.Databases(live.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading Database %s/%s, whose server has the database: %w", live.Namespace, name, err)
	}
	if err == nil && database.DeletionTimestamp == nil {
		return false, nil
	}
	claim, err := r.claims.PersistentVolumeClaims(live.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading PersistentVolumeClaim %s/%s, which has the database: %w", live.Namespace, name, err)
	}
	return err != nil || claim.DeletionTimestamp != nil, nil
}
