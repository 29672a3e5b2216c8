//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// postgresSpec returns the smallest spec of a Database, with the version and image of this run.
func postgresSpec() v1alpha1.DatabaseSpec {
	spec := framework.SmallestDatabase()
	spec.Version, spec.Image = cmp.Or(os.Getenv("E2E_POSTGRES_VERSION"), spec.Version), os.Getenv("E2E_POSTGRES_IMAGE")
	return spec
}

// database is a Database "shop" in a namespace.
type database struct {
	namespace string
	queries   atomic.Int32
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	d := &database{namespace: here.NewNamespace(t)}
	here.CreateDatabase(t, d.namespace, "shop", postgresSpec())
	d.ready(t)
	return d
}

// ready waits until PostgreSQL accepts connections, and has applied the newest spec.
func (d *database) ready(t *testing.T) {
	t.Helper()
	here.DatabaseWith(t, d.namespace, "shop", "Ready with the newest settings", func(db *v1alpha1.Database) bool {
		is := db.Status.Conditions
		return meta.IsStatusConditionTrue(is, "Ready") && meta.IsStatusConditionFalse(is, "Progressing") &&
			meta.IsStatusConditionFalse(is, "Degraded")
	})
}

// query runs psql in an At. psql connects through the Service with the uri in a Secret, and executes the SQL. query
// returns the output of psql, and whether psql failed.
func (d *database) query(t *testing.T, secret, sql string) (output string, failed bool) {
	t.Helper()
	spec := postgresSpec()
	name := fmt.Sprintf("query-%d", d.queries.Add(1))
	here.Create(t, d.namespace, name, "", func(at *v1.At) {
		at.Spec.Image = cmp.Or(spec.Image, "postgres:"+spec.Version)
		at.Spec.EnvFrom = []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}},
		}
		at.Spec.Env = []corev1.EnvVar{{Name: "SQL", Value: sql}}
		at.Spec.PodTemplate = rootCert(secret)
		at.Spec.Command = []string{"sh", "-c", `psql "$uri" -v ON_ERROR_STOP=1 -qAtc "$SQL" 2>&1`}
	})
	at := here.InPhase(t, d.namespace, name, v1.AtDone)
	return strings.TrimSpace(logs(t, d.namespace, name)), framework.Reason(at, "Complete") == ""
}

// rootCert returns a Pod template of an At that mounts the CA in a connection Secret where the uri expects it.
func rootCert(secret string) *v1.PodTemplate {
	return &v1.PodTemplate{Spec: &runtime.RawExtension{Raw: fmt.Appendf(nil, `{
		"containers": [{"name": "command", "volumeMounts": [{"name": "ca", "mountPath": "/etc/windlass/database"}]}],
		"volumes": [{"name": "ca", "secret": {"secretName": %q, "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]
	}`, secret)}}
}

// wantQuery fails the test unless a query with the credentials of the Database returns want.
func (d *database) wantQuery(t *testing.T, when, sql, want string) {
	t.Helper()
	if got, failed := d.query(t, "shop-credentials", sql); failed || got != want {
		t.Fatalf("%s, %q returns %q, want %q", when, sql, got, want)
	}
}

const rows = "select string_agg(id::text, ' ' order by id) from orders"

func (d *database) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := kubectl(t.Context(), "", append([]string{"-n", d.namespace}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

func (d *database) update(t *testing.T, change func(*v1alpha1.Database)) {
	t.Helper()
	here.UpdateDatabase(t, d.namespace, "shop", change)
}

// replaced waits until a Pod with a UID other than uid is ready.
func (d *database) replaced(t *testing.T, uid string) {
	t.Helper()
	framework.Eventually(t, "the new Pod to be ready", func(ctx context.Context) (bool, error) {
		pod, err := here.Kube.CoreV1().Pods(d.namespace).Get(ctx, "shop-0", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil // the new Pod does not exist yet
		}
		return err == nil && string(pod.UID) != uid && isReady(pod), err
	})
	d.ready(t)
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (d *database) podUID(t *testing.T) string {
	t.Helper()
	return d.kubectl(t, "get", "pod", "shop-0", "-o", "jsonpath={.metadata.uid}")
}

func TestDatabaseKeepsRowsAcrossRestarts(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.wantQuery(t, "at first", "select 1", "1")
	d.wantQuery(t, "at first", "create table orders as select 1 as id; "+rows, "1")

	uid := d.podUID(t)
	d.kubectl(t, "delete", "pod", "shop-0") // so that the volume is mounted a second time
	d.replaced(t, uid)
	d.wantQuery(t, "after the Pod was deleted", "insert into orders values (2); "+rows, "1 2")

	if _, err := kubectl(t.Context(), "", "delete", "pods", "-n", operatorNamespace, "--all", "--grace-period=0",
		"--force"); err != nil {
		t.Fatal(err)
	}
	d.update(t, func(db *v1alpha1.Database) {
		db.Spec.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "9MB", "log_line_prefix": "$(PGDATA) %m "}
	})
	d.ready(t)
	d.wantQuery(t, "after the operator was killed and parameters changed", "show work_mem", "9MB")
	d.wantQuery(t, "after the operator was killed and parameters changed", rows, "1 2")

	d.kubectl(t, "delete", "database", "shop")
	framework.Eventually(t, "the Pod to be deleted", func(ctx context.Context) (bool, error) {
		_, err := here.Kube.CoreV1().Pods(d.namespace).Get(ctx, "shop-0", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	here.CreateDatabase(t, d.namespace, "shop", postgresSpec())
	d.ready(t)
	d.wantQuery(t, "after the Database was created again", rows, "1 2")
	wantRowsInApp(t, d, "1 2")
}

// wantRowsInApp fails the test unless an App reads want with the credentials of the Database.
func wantRowsInApp(t *testing.T, d *database, want string) {
	t.Helper()
	here.CreateApp(t, d.namespace, "reader", v1alpha1.AppSpec{
		Image: psqlImage(), Command: []string{"sleep", "3600"},
		DatabaseRef: &v1alpha1.DatabaseReference{Name: "shop"},
	})
	here.AppIn(t, d.namespace, "reader", v1alpha1.AppReady)
	for _, command := range []string{`psql "$DATABASE_URL"`, "psql"} {
		got := strings.TrimSpace(d.kubectl(t, "exec", "deployment/reader", "--", "sh", "-c", command+` -Atc "`+rows+`"`))
		if got != want {
			t.Errorf("%s in the App returns %q, want %q", command, got, want)
		}
	}
}

// TestVolumeExpandsAndIsDeleted needs a default StorageClass that allows expansion.
func TestVolumeExpandsAndIsDeleted(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.update(t, func(db *v1alpha1.Database) {
		db.Spec.Storage.Size, db.Spec.DeletionPolicy = resource.MustParse("2Gi"), v1alpha1.DeletionDelete
	})
	here.DatabaseWith(t, d.namespace, "shop", "expanded", func(db *v1alpha1.Database) bool {
		return db.Status.Phase == v1alpha1.DatabaseReady && db.Status.Storage.String() == "2Gi"
	})
	d.wantQuery(t, "after the expansion", "select 1", "1")
	d.kubectl(t, "delete", "database", "shop")
	framework.Eventually(t, "the claim to be deleted", func(ctx context.Context) (bool, error) {
		_, err := here.Kube.CoreV1().PersistentVolumeClaims(d.namespace).Get(ctx, "shop", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}
