//go:build integration

package integration

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/place"
	"windlass.dev/windlass/test/world"
)

func deleteExternal(t *testing.T, namespace, name string) {
	t.Helper()
	objects := shared.Windlass.WindlassV1alpha1().ExternalDatabases(namespace)
	if err := objects.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, name+" to be gone", func(ctx context.Context) (bool, error) {
		list, err := objects.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		return err == nil && len(list.Items) == 0, err
	})
}

func (e *external) setPolicy(t *testing.T, policy v1alpha1.DeletionPolicy) {
	t.Helper()
	e.update(t, func(db *v1alpha1.ExternalDatabase) { db.Spec.DeletionPolicy = policy })
}

func TestWhatDeletionPolicySaysAtTheLastMomentCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		made, last v1alpha1.DeletionPolicy
		left       string
	}{
		"Retain":            {v1alpha1.DeletionRetain, "", "2"},
		"Delete":            {v1alpha1.DeletionDelete, "", "0"},
		"Retain, to Delete": {v1alpha1.DeletionRetain, v1alpha1.DeletionDelete, "0"},
		"Delete, to Retain": {v1alpha1.DeletionDelete, v1alpha1.DeletionRetain, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExternal(t, outside(t), nil)
			e.create(t, func(s *v1alpha1.ExternalDatabaseSpec) { s.DeletionPolicy = c.made })
			e.ready(t)
			if c.last != "" {
				e.setPolicy(t, c.last)
			}
			e.delete(t)
			e.gone(t)
			e.left(t, c.left)
		})
	}
}

func TestDeletionWithOpenConnections(t *testing.T) {
	t.Parallel()
	e := newExternal(t, outside(t), nil)
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
	e.gone(t)
	e.left(t, "0")
}

// TestDeletionWithoutTheConnectionSecret is of a controller that has not read the Secret
// before: one that has goes on with what it read.
func TestDeletionWithoutTheConnectionSecret(t *testing.T) {
	t.Parallel()
	p := ownPlace(t)
	first := place.Launch(t, p.Cluster)
	namespace, server := p.NewNamespace(t), outside(t)
	e := &external{namespace: namespace, server: server}
	createConnection(t, p, namespace, "server", connectionTo(server))
	for _, name := range []string{"waits", "let-go"} {
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
	second := place.Launch(t, p.Cluster)
	defer second.Terminate()
	gone := func(name string) {
		t.Helper()
		world.Eventually(t, name+" to be gone", func(ctx context.Context) (bool, error) {
			list, err := objects.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
			return err == nil && len(list.Items) == 0, err
		})
	}
	for _, name := range []string{"waits", "let-go"} {
		db := p.ExternalDatabaseReason(t, namespace, name, "DependencyMissing")
		if want := "make it again, or set deletionPolicy to Retain"; !containsAll(message(db), want, "Secret server") {
			t.Errorf("it is not said what to do: %s", message(db))
		}
	}
	p.UpdateExternalDatabase(t, namespace, "let-go", func(db *v1alpha1.ExternalDatabase) { db.Spec.DeletionPolicy = v1alpha1.DeletionRetain })
	gone("let-go")
	createConnection(t, p, namespace, "server", connectionTo(server))
	gone("waits")
	for name, want := range map[string]string{"waits": "0", "let-go": "1"} {
		if got := e.ask(t, "postgres", "select count(*) from pg_database where datname = '"+name+e.spec().DatabaseName+"'"); got != want {
			t.Errorf("of %s %s databases are left, not %s", name, got, want)
		}
	}
}

func TestDeletionWithTheServerAway(t *testing.T) {
	t.Parallel()
	e := newExternal(t, ownOutside(t), nil)
	e.create(t, nil)
	e.ready(t)
	e.server.Stop()
	e.delete(t)
	e.says(t, "ServerUnreachable", false, "Connecting by Secret server: ", "deletionPolicy Retain would leave them")
	if err := e.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.gone(t)
	e.left(t, "0")
}

func TestDeletionWithTheServerAwayCanBeLetGo(t *testing.T) {
	t.Parallel()
	e := newExternal(t, ownOutside(t), nil)
	e.create(t, nil)
	e.ready(t)
	e.server.Stop()
	e.delete(t)
	e.reason(t, "ServerUnreachable")
	e.setPolicy(t, v1alpha1.DeletionRetain)
	e.gone(t)
	if err := e.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.left(t, "2")
}

// TestDeletionOfTheNamespace takes the connection Secret along, before or after.
func TestDeletionOfTheNamespace(t *testing.T) {
	t.Parallel()
	for _, number := range []int{1, 1, 1, 12} {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			t.Parallel()
			e := newExternal(t, outside(t), nil)
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
			e.gone(t)
			e.left(t, "0")
			if got := e.ask(t, "postgres", "select count(*) from pg_database where datname like 'more-%"+e.namespace+"'"); got != "0" {
				t.Errorf("%s of the others are left", got)
			}
		})
	}
}

// TestDeletionOfTheNamespaceInTheMiddle holds the first pass up while it makes the role.
func TestDeletionOfTheNamespaceInTheMiddle(t *testing.T) {
	t.Parallel()
	e := newExternal(t, ownOutside(t), nil)
	conn, err := e.server.Connect(t.Context(), "postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE pg_shdescription IN EXCLUSIVE MODE"); err != nil { // which can be read, but not written
		t.Fatal(err)
	}
	e.create(t, nil)
	world.Eventually(t, "the role to be on its way", func(context.Context) (bool, error) {
		return e.ask(t, "postgres", "select count(*) from pg_locks where not granted") == "1", nil
	})
	if err := shared.Kube.CoreV1().Namespaces().Delete(t.Context(), e.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	e.gone(t)
	e.left(t, "0")
}

func TestDeletionWhenNothingWasMade(t *testing.T) {
	t.Parallel()
	e := &external{namespace: shared.NewNamespace(t), server: outside(t)}
	e.create(t, nil) // without a connection Secret
	e.reason(t, "DependencyMissing")
	e.delete(t)
	e.gone(t)
}

func TestOrphansAreLeft(t *testing.T) {
	t.Parallel()
	e := newExternal(t, outside(t), nil)
	e.create(t, nil)
	e.ready(t)
	externalDatabases.children[0].seenByGarbageCollection(t, dynamicClient(t), e.namespace)
	orphan := metav1.DeletePropagationOrphan
	if err := shared.Windlass.WindlassV1alpha1().ExternalDatabases(e.namespace).Delete(t.Context(), "shop", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	e.gone(t)
	e.left(t, "2")
	e.works(t)
}
