package externaldatabase

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

// serverDatabase returns the name of the Database on whose server the role and the database are, or "" for any
// other server. Only the operator can prove this: the Database must control the connection Secret, and the Secret
// must name the Service of the Database as its host.
func (r *reconciler) serverDatabase(p *scope) string {
	key := connectionKey(p.db)
	name, isCredentials := strings.CutSuffix(key.Name, credentials.Name(""))
	secret, err := r.secrets.Cache.Get(key.Namespace, key.Name)
	if err != nil || !isCredentials || p.admin.Host != name+"."+key.Namespace+".svc" {
		return "" // a Secret that the operator did not create is not in this cache
	}
	owner := metav1.GetControllerOf(secret)
	if owner == nil || owner.APIVersion != v1alpha1.SchemeGroupVersion.String() || owner.Kind != "Database" ||
		owner.Name != name {
		return ""
	}
	return name
}

// goesWithVolume reports whether the volume that has the role and the database is being deleted together with its
// Database, as when the namespace is deleted. The server then may not run any more, and nothing is left to delete.
//
// It reads the Database and its claim from the API server, because the caches may lack objects. live is the
// ExternalDatabase as the API server has it: users cannot write its status. If connectionSecretRef has changed since,
// the role and the database may be on another server.
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
