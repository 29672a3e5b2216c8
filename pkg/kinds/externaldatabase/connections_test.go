package externaldatabase

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
	for name, c := range map[string]struct {
		others []runtime.Object
		kept   bool
	}{
		"no ExternalDatabase refers to it": {},
		"another ExternalDatabase refers to it": {
			others: []runtime.Object{
				example(func(db *v1alpha1.ExternalDatabase) { db.Name, db.UID = "another", "another-uid" }),
			},
			kept: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := connectionSecret(func(s *corev1.Secret) { s.Name = "other" })
			f := newFixture(t, current(), example(known), append(c.others, connectionSecret(), other, createdSecret(t))...)
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			f.Change(func(db *v1alpha1.ExternalDatabase) { db.Spec.ConnectionSecretRef.Name = "other" })
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			_, kept := f.connections().last(connectionKey(example()))
			controllertest.Equal(t, "the connection is kept", c.kept, kept)
		})
	}
}

// TestConnectionsLimitSizePerNamespace has Secrets of almost the maximum size.
func TestConnectionsLimitSizePerNamespace(t *testing.T) {
	const secrets = 100
	var others []runtime.Object
	for n := range secrets {
		for _, namespace := range []string{"a", "b"} {
			others = append(others, example(func(db *v1alpha1.ExternalDatabase) {
				db.Namespace, db.Name, db.Spec.ConnectionSecretRef.Name = namespace, fmt.Sprint(n), fmt.Sprint(n)
			}))
		}
	}
	f := newFixture(t, nil, example(), others...)
	f.Observe()
	c := f.connections()
	for n := range secrets {
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
