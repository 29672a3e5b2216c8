//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestExternalDatabaseUsesDatabaseAsServer uses a Database as the server of an ExternalDatabase. The Secret of the
// Database is the connection Secret. Ats connect to the new database through the Service.
func TestExternalDatabaseUsesDatabaseAsServer(t *testing.T) {
	t.Parallel()
	d := &database{namespace: here.NewNamespace(t)}
	spec := postgresSpec()
	spec.OwnerAttributes = []v1alpha1.OwnerAttribute{v1alpha1.OwnerCreateDB, v1alpha1.OwnerCreateRole}
	here.CreateExternalDatabase(t, d.namespace, "cart", v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: "shop-credentials"}, DatabaseName: "cart",
		DeletionPolicy: v1alpha1.DeletionDelete,
		Credentials:    &v1alpha1.CredentialsSpec{GracePeriod: &metav1.Duration{Duration: 10 * time.Second}},
	})
	here.ExternalDatabaseReason(t, d.namespace, "cart", "DependencyMissing")
	here.CreateDatabase(t, d.namespace, "shop", spec)
	cart := here.ExternalDatabaseIn(t, d.namespace, "cart", v1alpha1.ExternalDatabaseReady)
	shop := here.DatabaseIn(t, d.namespace, "shop", v1alpha1.DatabaseReady)
	t.Logf("the ExternalDatabase was Ready %s after its Database",
		meta.FindStatusCondition(cart.Status.Conditions, "Ready").LastTransitionTime.Sub(
			meta.FindStatusCondition(shop.Status.Conditions, "Ready").LastTransitionTime.Time))

	if got, failed := d.query(t, "cart-credentials", "create table items (id int); insert into items values (1), "+
		"(2); select current_user || ' ' || sum(id) from items"); failed || got != "cart 3" {
		t.Fatalf("psql as the owner prints %q, want cart 3", got)
	}
	// The owner gets a new password, and the rows remain.
	if err := here.Kube.CoreV1().Secrets(d.namespace).Delete(t.Context(), "cart-credentials",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the Secret to be created again", func(ctx context.Context) (bool, error) {
		list, err := here.Kube.CoreV1().Secrets(d.namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "metadata.name=cart-credentials",
		})
		return err == nil && len(list.Items) == 1, err
	})
	framework.Eventually(t, "the owner to read with the new password", func(context.Context) (bool, error) {
		got, failed := d.query(t, "cart-credentials", "select sum(id) from items")
		return !failed && got == "3", nil
	})
	// The owner gets another login, which acts as the owner.
	d.kubectl(t, "annotate", "externaldatabase", "cart", "windlass.dev/rotate-credentials=1")
	here.ExternalDatabaseWith(t, d.namespace, "cart", "rotated", func(db *v1alpha1.ExternalDatabase) bool {
		c := db.Status.Credentials
		return c != nil && c.Username == "cart-login1" && c.PreviousUsername == "" && c.WaitingFor == ""
	})
	if got, failed := d.query(t, "cart-credentials", "insert into items values (3); select current_user || ' ' || "+
		"sum(id) from items"); failed || got != "cart 6" {
		t.Fatalf("psql with the next login prints %q, want cart 6", got)
	}
	// The server restarts.
	uid := d.podUID(t)
	d.kubectl(t, "delete", "pod", "shop-0", "--wait=false")
	d.replaced(t, uid)
	framework.Eventually(t, "the owner to read after a restart", func(context.Context) (bool, error) {
		got, failed := d.query(t, "cart-credentials", "select sum(id) from items")
		return !failed && got == "6", nil
	})
	d.kubectl(t, "delete", "externaldatabase", "cart", "--timeout=60s")
	d.wantQuery(t, "after the ExternalDatabase was deleted", "select count(*) from pg_database where datname = 'cart'",
		"0")
}
