//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// newBackedUpDatabase returns a Database whose backup works, with a table orders.
func newBackedUpDatabase(t *testing.T) *database {
	t.Helper()
	d, spec := &database{namespace: here.NewNamespace(t)}, postgresSpec()
	spec.Parameters = map[string]v1alpha1.ParameterValue{"track_commit_timestamp": "on"}
	spec.Backup = &v1alpha1.DatabaseBackup{Keep: 2, Destination: v1alpha1.BackupDestination{
		Claim: v1alpha1.BackupClaim{Size: resource.MustParse("1Gi")},
	}}
	here.CreateDatabase(t, d.namespace, "shop", spec)
	d.ready(t)
	d.backedUp(t)
	d.only(t, "create table orders (id serial)")
	return d
}

// backedUp waits until the backup works.
func (d *database) backedUp(t *testing.T) {
	t.Helper()
	here.DatabaseWith(t, d.namespace, "shop", "BackedUp", func(db *v1alpha1.Database) bool {
		return meta.IsStatusConditionTrue(db.Status.Conditions, "BackedUp")
	})
}

// write starts a client that inserts rows, and prints the ID of each row that the server has acknowledged.
func (d *database) write(t *testing.T) {
	t.Helper()
	spec := postgresSpec()
	here.Create(t, d.namespace, "writer", "", func(at *v1.At) {
		at.Spec.Image = cmp.Or(spec.Image, "postgres:"+spec.Version)
		at.Spec.EnvFrom = []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "shop-credentials"}}},
		}
		at.Spec.PodTemplate = rootCert("shop-credentials")
		at.Spec.Command = []string{"sh", "-c", `while echo 'insert into orders default values returning id;' && ` +
			`sleep 0.02; do :; done | psql "$uri" -v ON_ERROR_STOP=1 -qAt`}
	})
	framework.Eventually(t, "the writer to write for some seconds", func(context.Context) (bool, error) {
		return d.acknowledged(t) > 500, nil
	})
}

// acknowledged returns the ID of the last row that the server has acknowledged, or 0.
func (d *database) acknowledged(t *testing.T) (last int) {
	t.Helper()
	output, err := kubectl(t.Context(), "", "-n", d.namespace, "logs", "writer-pod")
	if err != nil {
		return 0 // the Pod does not run yet
	}
	for line := range strings.Lines(output) {
		if id, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
			last = id
		}
	}
	return last
}

// number returns the result of a query.
func (d *database) number(t *testing.T, sql string) int {
	t.Helper()
	number, err := strconv.Atoi(d.only(t, sql))
	if err != nil {
		t.Fatal(err)
	}
	return number
}

func TestLostDatabaseIsRestoredWithItsSecret(t *testing.T) {
	t.Parallel()
	d := newBackedUpDatabase(t)
	secret := here.Credentials(t, d.namespace, "shop").UID
	d.write(t)
	d.kubectl(t, "exec", "shop-0", "--", "sh", "-c", "rm -rf /var/lib/postgresql/data/*")
	acknowledged := d.acknowledged(t)
	d.kubectl(t, "annotate", "database", "shop", "--overwrite", "windlass.dev/restore=latest")
	d.kubectl(t, "delete", "pvc", "shop", "--wait=false")
	d.kubectl(t, "delete", "statefulset", "shop")
	here.DatabaseWith(t, d.namespace, "shop", "restored", func(db *v1alpha1.Database) bool {
		return db.Status.RestoredClaim != ""
	})
	d.ready(t)
	restored := d.number(t, "select count(*) from orders where id <= "+strconv.Itoa(acknowledged))
	if lost := acknowledged - restored; lost > 5*50 {
		t.Errorf("%d of %d acknowledged rows are lost, want at most those of 5 seconds", lost, acknowledged)
	}
	t.Logf("%d of %d acknowledged rows were restored", restored, acknowledged)
	if here.Credentials(t, d.namespace, "shop").UID != secret {
		t.Error("the connection Secret was replaced")
	}
	d.backedUp(t)
}

func TestBackupIsRestoredToTime(t *testing.T) {
	t.Parallel()
	d := newBackedUpDatabase(t)
	d.write(t)
	at := d.only(t, `select to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`)
	after := d.acknowledged(t)
	framework.Eventually(t, "further rows", func(context.Context) (bool, error) {
		return d.acknowledged(t) > after+100, nil
	})
	want := d.only(t, "select count(*) from orders where pg_xact_commit_timestamp(xmin) <= '"+at+"'")
	target, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	spec := postgresSpec()
	spec.RestoreFrom = &v1alpha1.DatabaseRestore{
		Database: v1alpha1.LocalDatabase{Name: "shop"}, Time: &metav1.Time{Time: target},
	}
	here.CreateDatabase(t, d.namespace, "before", spec)
	here.DatabaseIn(t, d.namespace, "before", v1alpha1.DatabaseReady)
	got, failed := d.query(t, "before-credentials", "select count(*) from orders")
	if failed || got != want {
		t.Errorf("the Database restored to %s has %s rows, want %s", at, got, want)
	}
	t.Logf("%s of %d rows were committed until %s", want, d.acknowledged(t), at)
}
