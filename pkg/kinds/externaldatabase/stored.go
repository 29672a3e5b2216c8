package externaldatabase

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/postgresql"
)

// vet returns a Stalled error if a plan would send a stored password to a server that only the plan names. The manifest
// in a plan can come from anybody, and must not decide which server gets a password. A plan may connect to the server
// that the stored connection Secret names, and may send passwords that are not stored. password is the password of the
// owner.
func (r *reconciler) vet(
	ctx context.Context, db *v1alpha1.ExternalDatabase, admin postgresql.Settings, password string,
) error {
	if r.stored == nil {
		return nil
	}
	connection, own := db.Spec.ConnectionSecretRef.Name, credentials.Name(db.Name)
	ofAdmin, err := r.storedData(ctx, db.Namespace, connection)
	if err != nil || credentials.NamesServer(ofAdmin, admin) {
		return err
	}
	ofOwner, err := r.storedData(ctx, db.Namespace, own)
	switch {
	case err != nil:
		return err
	case credentials.HasPassword(ofAdmin, admin.Password):
		return controller.Stalled(messageNotAsked.Error(connection, connection), 0)
	case credentials.HasPassword(ofOwner, password) && !credentials.NamesServer(ofOwner, admin):
		return controller.Stalled(messageNotAsked.Error(connection, own), 0)
	}
	return nil
}

// storedData returns the data of a Secret without the writes of the plan. It is nil if there is no such Secret.
func (r *reconciler) storedData(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	secret, err := r.stored.Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s as it is without the plan: %w", namespace, name, err)
	}
	return secret.Data, nil
}
