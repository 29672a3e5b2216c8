package externaldatabase

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
	"windlass.dev/windlass/pkg/postgresql"
)

func TestReconcileReadsConnectionSecretOncePerVersion(t *testing.T) {
	f := newFixture(t, current(), example(known), connectionSecret(), createdSecret(t))
	reconcileThrice := func() (writes []string) {
		for range 3 {
			r := f.Reconcile()
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			writes = append(writes, r.Writes...)
		}
		return writes
	}
	controllertest.Equal(t, "writes", []string{updateStatus}, reconcileThrice())
	controllertest.Equal(t, "reads", 1, controllertest.Reads(f.Kube.Actions(), "secrets"))

	kindtest.Change(f.Cluster, "default", "server", onOtherHost)
	controllertest.Equal(t, "writes after a change", []string{patchSecret}, reconcileThrice())
	controllertest.Equal(t, "reads after a change", 2, controllertest.Reads(f.Kube.Actions(), "secrets"))
	controllertest.Equal(t, "host of the server", "else.example.com", f.server.admin.Host)
	controllertest.Equal(t, "host in the Secret", "else.example.com", string(f.secret().Data["host"]))
}

func TestConnectionIsForgottenWithItsLastReference(t *testing.T) {
	before := example(known)
	elsewhere := example(known, func(db *v1alpha1.ExternalDatabase) { db.Spec.ConnectionSecretRef.Name = "other" })
	another := example(func(db *v1alpha1.ExternalDatabase) { db.Name, db.UID = "another", "another-uid" })
	for name, c := range map[string]struct {
		now   []runtime.Object // the ExternalDatabases in the cache at the time of the event
		event func(cache.ResourceEventHandler)
		kept  bool
	}{
		"the deletion of the last ExternalDatabase forgets the connection": {
			event: func(h cache.ResourceEventHandler) { h.OnDelete(before) },
		},
		"a list that lacks the last ExternalDatabase forgets the connection": {
			event: func(h cache.ResourceEventHandler) { h.OnDelete(cache.DeletedFinalStateUnknown{Obj: before}) },
		},
		"a change to another Secret forgets the connection": {
			now: []runtime.Object{elsewhere}, event: func(h cache.ResourceEventHandler) { h.OnUpdate(before, elsewhere) },
		},
		"an update with the same Secret keeps the connection": {
			now: []runtime.Object{before}, event: func(h cache.ResourceEventHandler) { h.OnUpdate(before, before) }, kept: true,
		},
		"a deletion keeps the connection of another ExternalDatabase": {
			now: []runtime.Object{another}, event: func(h cache.ResourceEventHandler) { h.OnDelete(before) }, kept: true,
		},
		"a change to another Secret keeps the connection of another ExternalDatabase": {
			now: []runtime.Object{another, elsewhere}, event: func(h cache.ResourceEventHandler) {
				h.OnUpdate(before, elsewhere)
			}, kept: true,
		},
		"an event of another type keeps the connection": {
			event: func(h cache.ResourceEventHandler) { h.OnDelete("?"); h.OnUpdate("?", "?") }, kept: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, current(), before, connectionSecret(), createdSecret(t))
			if r := f.Reconcile(); r.Err != nil {
				t.Fatal(r.Err)
			}
			f.Remove(before)
			f.Store(c.now...)
			f.Observe()
			c.event(f.forgetful)
			_, kept := f.connections().last(connectionKey(before))
			controllertest.Equal(t, "the connection is kept", c.kept, kept)
		})
	}
}

// TestConnectionsLimitSizePerNamespace has Secrets of almost the maximum size.
func TestConnectionsLimitSizePerNamespace(t *testing.T) {
	c := newConnections(nil, nil)
	for n := range 100 {
		for _, namespace := range []string{"a", "b"} {
			c.keep(controller.Key{Namespace: namespace, Name: fmt.Sprint(n)}, connection{
				settings: postgresql.Settings{CA: make([]byte, 190<<10)},
			})
		}
	}
	sizes := map[string]int{}
	for key, read := range c.read {
		sizes[key.Namespace] += len(read.settings.CA)
	}
	for namespace, size := range sizes {
		if size > maxKept {
			t.Errorf("%d bytes of namespace %s are kept", size, namespace)
		}
	}
	for _, namespace := range []string{"a", "b"} {
		if _, kept := c.last(controller.Key{Namespace: namespace, Name: "99"}); !kept {
			t.Errorf("the last Secret of namespace %s is not kept", namespace)
		}
	}
}

// TestFinalizeUsesLastConnectionIfSecretsAreDeleted deletes the Secrets before the ExternalDatabase, as the
// deletion of a namespace can.
func TestFinalizeUsesLastConnectionIfSecretsAreDeleted(t *testing.T) {
	f := newFixture(t, current(), example(known), connectionSecret(), createdSecret(t))
	if r := f.Reconcile(); r.Err != nil {
		t.Fatal(r.Err)
	}
	f.Remove(kindtest.Get[*corev1.Secret](f.Cluster, "default", "server"), f.secret())
	f.Change(deleted)
	f.server.admin = postgresql.Settings{}
	if r := f.Reconcile(); r.Err != nil {
		t.Fatal(r.Err)
	}
	controllertest.Equal(t, "calls", []string{"exists", "close", "delete", "close"}, f.server.calls)
	controllertest.Equal(t, "settings", adminSettings, f.server.admin)
	controllertest.Equal(t, "password", "", f.server.want.Password)
}
