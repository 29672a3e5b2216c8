//go:build integration

package integration

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestExternalDatabasePasswordsAppearOnlyInSecrets searches for the passwords of the owner and of the administrator in
// everything that the operator writes, except Secrets. It also searches the server's log, which contains every
// statement and every error.
func TestExternalDatabasePasswordsAppearOnlyInSecrets(t *testing.T) {
	t.Parallel()
	p, server := framework.Own(t), ownServer(t, "debug_print_parse=on", "log_connections=on", "log_min_messages=debug1")
	controller := framework.Launch(t, p.Cluster, "-v=7")
	defer controller.Terminate()
	e := &external{namespace: "default", server: server}
	createConnection(t, p, "default", "server", connectionTo(server))
	p.CreateExternalDatabase(t, "default", "shop", e.spec())
	found := []string{server.Password, "canary-of-nobody-at-all"}
	note := func() {
		t.Helper()
		p.ExternalDatabaseIn(t, "default", "shop", v1alpha1.ExternalDatabaseReady)
		found = append(found, string(p.Credentials(t, "default", "shop").Data["password"]))
	}
	note()
	secrets := p.Kube.CoreV1().Secrets("default")
	change := func(name, key, value string) {
		t.Helper()
		secret, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		secret.Data[key] = []byte(value)
		if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(reason string) {
		t.Helper()
		p.ExternalDatabaseReason(t, "default", "shop", reason)
	}
	// Cause two errors: the operator may not change the database, and the administrator's password is wrong. A reconcile
	// that still uses the previous Secret corrects the database, so change the database until a reconcile fails.
	e.exec(t, "postgres", "CREATE ROLE limited LOGIN CREATEROLE PASSWORD 'canary-of-nobody-at-all'")
	change("server", "username", "limited")
	change("server", "password", "canary-of-nobody-at-all")
	framework.Eventually(t, "the operator to fail to correct the database", func(ctx context.Context) (bool, error) {
		conn, err := server.Connect(ctx, "postgres")
		if err != nil {
			return false, err
		}
		// The statements fail if the operator changes the same rows at the same time.
		_, _ = conn.Exec(ctx, e.withNames("ALTER DATABASE @database OWNER TO postgres; ALTER ROLE @owner PASSWORD NULL"))
		if err := conn.Close(ctx); err != nil {
			return false, err
		}
		db := p.UpdateExternalDatabase(t, "default", "shop", func(db *v1alpha1.ExternalDatabase) {
			metav1.SetMetaDataAnnotation(&db.ObjectMeta, "broken", db.Annotations["broken"]+".")
		})
		return slices.ContainsFunc(db.Status.Conditions, func(c metav1.Condition) bool {
			return c.Reason == "PermissionDenied"
		}), nil
	})
	change("server", "password", "canary-of-nobody-at-all-that-is-wrong")
	wait("LoginRejected")
	change("server", "username", "postgres")
	change("server", "password", server.Password)
	note()
	change("shop-credentials", "password", "canary-that-a-user-has-set")
	note()
	if err := secrets.Delete(t.Context(), "shop-credentials", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.ExternalDatabaseWith(t, "default", "shop", "Ready again", func(*v1alpha1.ExternalDatabase) bool {
		secret, err := secrets.Get(t.Context(), "shop-credentials", metav1.GetOptions{})
		return err == nil && string(secret.Data["password"]) != "canary-that-a-user-has-set"
	})
	note()
	for _, words := range []string{
		"statement: ALTER ROLE", "SCRAM-SHA-256$4096:", "must be owner of database", "password authentication failed",
	} {
		if !strings.Contains(server.Log(), words) {
			t.Errorf("the server's log does not contain %q", words)
		}
	}
	// The test's own statement contains this password.
	log := strings.ReplaceAll(server.Log(), "LOGIN CREATEROLE PASSWORD 'canary-of-nobody-at-all'", "")
	lookFor(t, p, controller, found, map[string]string{"the server's log": log}, []string{
		"externaldatabases", "events", "events.events.k8s.io",
	}, []string{"server", "shop-credentials"})
}
