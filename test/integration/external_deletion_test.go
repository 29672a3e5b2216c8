//go:build integration

package integration

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// deleteExternal deletes an ExternalDatabase, and waits until it no longer exists.
func deleteExternal(t *testing.T, namespace, name string) {
	t.Helper()
	objects := shared.Windlass.WindlassV1alpha1().ExternalDatabases(namespace)
	if err := objects.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "ExternalDatabase "+name+" to be deleted", func(ctx context.Context) (bool, error) {
		list, err := objects.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		return err == nil && len(list.Items) == 0, err
	})
}

func (e *external) setPolicy(t *testing.T, policy v1alpha1.DeletionPolicy) {
	t.Helper()
	e.update(t, func(db *v1alpha1.ExternalDatabase) { db.Spec.DeletionPolicy = policy })
}

func TestExternalDatabaseDeletionFollowsLatestPolicy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, last v1alpha1.DeletionPolicy
		left        string
	}{
		"Retain":              {v1alpha1.DeletionRetain, "", "2"},
		"Delete":              {v1alpha1.DeletionDelete, "", "0"},
		"Retain, then Delete": {v1alpha1.DeletionRetain, v1alpha1.DeletionDelete, "0"},
		"Delete, then Retain": {v1alpha1.DeletionDelete, v1alpha1.DeletionRetain, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExternal(t, sharedServer(t), nil)
			e.create(t, func(s *v1alpha1.ExternalDatabaseSpec) { s.DeletionPolicy = c.first })
			e.ready(t)
			if c.last != "" {
				e.setPolicy(t, c.last)
			}
			e.delete(t)
			e.waitDeleted(t)
			e.wantLeft(t, c.left)
		})
	}
}

func TestExternalDatabaseDeletionEndsOpenConnections(t *testing.T) {
	t.Parallel()
	e := newExternal(t, sharedServer(t), nil)
	e.create(t, nil)
	e.ready(t)
	conn, err := e.connect(t.Context(), t)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "begin; create table half (n int)"); err != nil {
		t.Fatal(err)
	}
	e.delete(t)
	e.waitDeleted(t)
	e.wantLeft(t, "0")
}

// TestExternalDatabaseDeletionWaitsForConnectionSecret restarts the controller, because a running controller continues
// to use the Secret that it has read.
func TestExternalDatabaseDeletionWaitsForConnectionSecret(t *testing.T) {
	t.Parallel()
	p := framework.Own(t)
	first := framework.Launch(t, p.Cluster)
	namespace, server := p.NewNamespace(t), sharedServer(t)
	e := &external{namespace: namespace, server: server}
	createConnection(t, p, namespace, "server", connectionTo(server))
	for _, name := range []string{"waits", "retained"} {
		spec := e.spec()
		spec.DatabaseName, spec.Owner = name+spec.DatabaseName, name+spec.Owner
		p.CreateExternalDatabase(t, namespace, name, spec)
		p.ExternalDatabaseIn(t, namespace, name, v1alpha1.ExternalDatabaseReady)
	}
	first.Terminate()
	objects, secrets := p.Windlass.WindlassV1alpha1().ExternalDatabases(namespace), p.Kube.CoreV1().Secrets(namespace)
	if err := secrets.Delete(t.Context(), "server", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := objects.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	second := framework.Launch(t, p.Cluster)
	defer second.Terminate()
	gone := func(name string) {
		t.Helper()
		framework.Eventually(t, "ExternalDatabase "+name+" to be deleted", func(ctx context.Context) (bool, error) {
			list, err := objects.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
			return err == nil && len(list.Items) == 0, err
		})
	}
	for _, name := range []string{"waits", "retained"} {
		db := p.ExternalDatabaseReason(t, namespace, name, "DependencyMissing")
		if want := "Create the Secret again, or set deletionPolicy to Retain"; !containsAll(message(db), want,
			"Secret server") {
			t.Errorf("the message does not say what to do: %s", message(db))
		}
	}
	p.UpdateExternalDatabase(t, namespace, "retained", func(db *v1alpha1.ExternalDatabase) {
		db.Spec.DeletionPolicy = v1alpha1.DeletionRetain
	})
	gone("retained")
	createConnection(t, p, namespace, "server", connectionTo(server))
	gone("waits")
	for name, want := range map[string]string{"waits": "0", "retained": "1"} {
		got := e.query(t, "postgres", "select count(*) from pg_database where datname = '"+name+e.spec().DatabaseName+"'")
		if got != want {
			t.Errorf("ExternalDatabase %s leaves %s databases, want %s", name, got, want)
		}
	}
}

func TestExternalDatabaseDeletionWaitsForServer(t *testing.T) {
	t.Parallel()
	e := newExternal(t, ownServer(t), nil)
	e.create(t, nil)
	e.ready(t)
	e.server.Stop()
	e.delete(t)
	e.wantMessage(t, "ServerUnreachable", true, "The connection to the server in Secret server failed: ",
		"(to keep them, set deletionPolicy to Retain)")
	if err := e.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.waitDeleted(t)
	e.wantLeft(t, "0")
}

func TestRetainEndsExternalDatabaseDeletionWithoutServer(t *testing.T) {
	t.Parallel()
	e := newExternal(t, ownServer(t), nil)
	e.create(t, nil)
	e.ready(t)
	e.server.Stop()
	e.delete(t)
	e.reason(t, "ServerUnreachable")
	e.setPolicy(t, v1alpha1.DeletionRetain)
	e.waitDeleted(t)
	if err := e.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.wantLeft(t, "2")
}

// TestNamespaceDeletionDropsExternalDatabases deletes a namespace. The namespace controller deletes the
// ExternalDatabases and their connection Secret in any order.
func TestNamespaceDeletionDropsExternalDatabases(t *testing.T) {
	t.Parallel()
	for _, number := range []int{1, 1, 1, 12} {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			t.Parallel()
			e := newExternal(t, sharedServer(t), nil)
			e.create(t, nil)
			e.ready(t)
			for n := range number - 1 {
				spec := e.spec()
				name := fmt.Sprintf("more-%d", n)
				spec.DatabaseName, spec.Owner = name+e.namespace, name+e.namespace
				shared.CreateExternalDatabase(t, e.namespace, name, spec)
				shared.ExternalDatabaseIn(t, e.namespace, name, v1alpha1.ExternalDatabaseReady)
			}
			if err := shared.Kube.CoreV1().Namespaces().Delete(t.Context(), e.namespace, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			e.waitDeleted(t)
			e.wantLeft(t, "0")
			got := e.query(t, "postgres", "select count(*) from pg_database where datname like 'more-%"+e.namespace+"'")
			if got != "0" {
				t.Errorf("%s of the other databases are left, want 0", got)
			}
		})
	}
}

// TestNamespaceDeletionWithDatabaseAsServerNeedsNoServer deletes a namespace that has a Database, and an
// ExternalDatabase on its server. The operator runs outside of the cluster and cannot reach this server, as after the
// deletion of the server's Pod. The role and the database are deleted with the volume of the server.
func TestNamespaceDeletionWithDatabaseAsServerNeedsNoServer(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.CreateDatabase(t, namespace, "pool", framework.SmallestDatabase())
	shared.DatabaseIn(t, namespace, "pool", v1alpha1.DatabaseReady)
	shared.CreateExternalDatabase(t, namespace, "cart", v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: "pool-credentials"}, DatabaseName: "cart",
		DeletionPolicy: v1alpha1.DeletionDelete,
	})
	objects := shared.Windlass.WindlassV1alpha1().ExternalDatabases(namespace)
	framework.Eventually(t, "the status to name the Database", func(ctx context.Context) (bool, error) {
		db, err := objects.Get(ctx, "cart", metav1.GetOptions{})
		return err == nil && db.Status.ServerDatabase == "pool", err
	})
	if err := shared.Kube.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the ExternalDatabase to be deleted", func(ctx context.Context) (bool, error) {
		list, err := objects.List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, err
	})
}

// TestNamespaceDeletionDuringCreationLeavesNothingOnServer blocks the first reconcile while it creates the role.
func TestNamespaceDeletionDuringCreationLeavesNothingOnServer(t *testing.T) {
	t.Parallel()
	e := newExternal(t, ownServer(t), nil)
	conn, err := e.server.Connect(t.Context(), "postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	// blocks writes to the table, but not reads
	if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE pg_shdescription IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	e.create(t, nil)
	framework.Eventually(t, "the creation of the role to wait for the lock", func(context.Context) (bool, error) {
		return e.query(t, "postgres", "select count(*) from pg_locks where not granted") == "1", nil
	})
	if err := shared.Kube.CoreV1().Namespaces().Delete(t.Context(), e.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	e.waitDeleted(t)
	e.wantLeft(t, "0")
}

func TestPendingExternalDatabaseIsDeleted(t *testing.T) {
	t.Parallel()
	e := &external{namespace: shared.NewNamespace(t), server: sharedServer(t)}
	e.create(t, nil) // without a connection Secret
	e.reason(t, "DependencyMissing")
	e.delete(t)
	e.waitDeleted(t)
}

func TestOrphanDeletionKeepsSecretRoleAndDatabase(t *testing.T) {
	t.Parallel()
	e := newExternal(t, sharedServer(t), nil)
	e.create(t, nil)
	e.ready(t)
	externalDatabases.children[0].waitForGarbageCollector(t, dynamicClient(t), e.namespace)
	orphan := metav1.DeletePropagationOrphan
	err := shared.Windlass.WindlassV1alpha1().ExternalDatabases(e.namespace).Delete(t.Context(), "shop",
		metav1.DeleteOptions{PropagationPolicy: &orphan})
	if err != nil {
		t.Fatal(err)
	}
	e.waitDeleted(t)
	e.wantLeft(t, "2")
	e.wantOwnerLogin(t)
}
