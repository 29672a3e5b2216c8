//go:build integration

package plan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/world"
)

// kindOf is a kind with objects of all fields.
type kindOf[S any] struct {
	schema.GroupVersionKind
	plural        string
	clusterScoped bool
	// references creates the objects that the spec names.
	references func(t *testing.T, namespace string)
	// spec returns a spec with all fields, in a namespace.
	spec func(namespace string) S
	// ready waits until the object is Ready.
	ready   func(t *testing.T, namespace, name string)
	changes map[string][]func(*S)
}

var (
	apps = kindOf[v1alpha1.AppSpec]{
		GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind("App"), plural: "apps",
		references: func(t *testing.T, namespace string) { t.Helper(); shared.CreateReferences(t, namespace) },
		spec:       func(string) v1alpha1.AppSpec { return world.EverythingOfApp() },
		ready: func(t *testing.T, namespace, name string) {
			t.Helper()
			shared.AppIn(t, namespace, name, v1alpha1.AppReady)
		},
		changes: world.ChangesOfApp,
	}
	databases = kindOf[v1alpha1.DatabaseSpec]{
		GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind("Database"), plural: "databases",
		references: func(*testing.T, string) {},
		spec:       func(string) v1alpha1.DatabaseSpec { return world.EverythingOfDatabase() },
		ready: func(t *testing.T, namespace, name string) {
			t.Helper()
			shared.DatabaseIn(t, namespace, name, v1alpha1.DatabaseReady)
		},
		changes: world.ChangesOfDatabase,
	}
	externalDatabases = kindOf[v1alpha1.ExternalDatabaseSpec]{
		GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind("ExternalDatabase"), plural: "externaldatabases",
		references: createConnections,
		spec: func(namespace string) v1alpha1.ExternalDatabaseSpec {
			return ofNamespace(world.EverythingOfExternalDatabase(), namespace)
		},
		ready: func(t *testing.T, namespace, name string) {
			t.Helper()
			shared.ExternalDatabaseIn(t, namespace, name, v1alpha1.ExternalDatabaseReady)
		},
		changes: world.ChangesOfExternalDatabase,
	}
	platforms = kindOf[v1alpha1.PlatformSpec]{
		GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind("Platform"), plural: "platforms", clusterScoped: true,
		references: func(t *testing.T, namespace string) {
			t.Helper()
			shared.CreateReferences(t, namespace)
			createConnections(t, namespace)
		},
		spec: func(namespace string) v1alpha1.PlatformSpec {
			spec := world.EverythingOfPlatform()
			spec.Namespace = namespace
			outside := spec.Components[world.OutsideComponent].ExternalDatabase
			*outside = ofNamespace(*outside, namespace)
			return spec
		},
		ready: func(t *testing.T, _, name string) {
			t.Helper()
			shared.PlatformIn(t, name, v1alpha1.PlatformReady)
		},
		changes: world.ChangesOfPlatform,
	}
	ats = kindOf[cnatv1.AtSpec]{
		GroupVersionKind: cnatv1.SchemeGroupVersion.WithKind("At"), plural: "ats",
		references: func(*testing.T, string) {},
		spec: func(string) cnatv1.AtSpec {
			return cnatv1.AtSpec{Schedule: "2020-01-01T00:00:00Z", Command: []string{"sleep", "infinity"}}
		},
		ready: func(t *testing.T, namespace, name string) {
			t.Helper()
			shared.InPhase(t, namespace, name, cnatv1.AtRunning)
		},
	}
)

// ofNamespace returns a spec whose role and database no other namespace uses on the shared server.
func ofNamespace(spec v1alpha1.ExternalDatabaseSpec, namespace string) v1alpha1.ExternalDatabaseSpec {
	spec.DatabaseName, spec.Owner = spec.DatabaseName+"-"+namespace, spec.Owner+"-"+namespace
	return spec
}

func createConnections(t *testing.T, namespace string) {
	t.Helper()
	connection := map[string]string{"host": "127.0.0.1", "port": server.Port, "username": "postgres", "password": server.Password, "sslmode": "disable"}
	other := maps.Clone(connection)
	other["host"] = "localhost"
	for name, data := range map[string]map[string]string{"server": connection, "other": other} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
		if _, err := shared.Kube.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// scenarios returns the scenarios of all kinds.
func scenarios() []scenario {
	return slices.Concat(apps.scenarios(), databases.scenarios(), externalDatabases.scenarios(), platforms.scenarios(), ats.scenarios())
}

// scenarios returns a scenario for the creation of an object, for each change of a field, and for the deletion.
func (k kindOf[S]) scenarios() []scenario {
	create := func(t *testing.T, namespace string) {
		t.Helper()
		k.references(t, namespace)
		if err := k.apply(t.Context(), dynamic.NewForConfigOrDie(shared.Config()), namespace, nil); err != nil {
			t.Fatal(err)
		}
	}
	ready := func(t *testing.T, namespace string) { t.Helper(); k.ready(t, namespace, k.name(namespace)) }
	all := []scenario{
		{
			name: k.Kind + "/create", create: k.references, unordered: k.clusterScoped,
			change: func(ctx context.Context, client dynamic.Interface, namespace string) error {
				return k.apply(ctx, client, namespace, nil)
			},
		},
		{
			name: k.Kind + "/delete", create: create, ready: ready, unordered: true, collects: true,
			change: func(ctx context.Context, client dynamic.Interface, namespace string) error {
				return k.client(client, namespace).Delete(ctx, k.name(namespace), metav1.DeleteOptions{})
			},
		},
	}
	for _, field := range slices.Sorted(maps.Keys(k.changes)) {
		for i, change := range k.changes[field] {
			all = append(all, scenario{
				name: fmt.Sprintf("%s/%s-%d", k.Kind, field, i+1), grows: field == "storage", create: create, ready: ready, unordered: k.clusterScoped, collects: k.removes(change),
				change: func(ctx context.Context, client dynamic.Interface, namespace string) error {
					return k.apply(ctx, client, namespace, change)
				},
			})
		}
	}
	return all
}

// removes reports whether a change removes a component of a Platform.
func (k kindOf[S]) removes(change func(*S)) bool {
	spec := k.spec("")
	change(&spec)
	platform, ok := any(spec).(v1alpha1.PlatformSpec)
	return ok && (len(platform.Components) < len(world.EverythingOfPlatform().Components) ||
		slices.ContainsFunc(platform.Components, func(c v1alpha1.PlatformComponent) bool { return c.ManagementState == v1alpha1.Removed }))
}

// name returns the name of the object that belongs to a namespace.
func (k kindOf[S]) name(namespace string) string {
	if k.clusterScoped {
		return namespace
	}
	return "shop"
}

func (k kindOf[S]) client(client dynamic.Interface, namespace string) dynamic.ResourceInterface {
	all := client.Resource(k.GroupVersion().WithResource(k.plural))
	if k.clusterScoped {
		return all
	}
	return all.Namespace(namespace)
}

// apply creates the object, or changes its spec. change, if it is not nil, changes the spec with all fields.
func (k kindOf[S]) apply(ctx context.Context, client dynamic.Interface, namespace string, change func(*S)) error {
	spec := k.spec(namespace)
	if change != nil {
		change(&spec)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return err
	}
	objects := k.client(client, namespace)
	if change == nil {
		obj := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
		obj.SetGroupVersionKind(k.GroupVersionKind)
		obj.SetName(k.name(namespace))
		obj.SetLabels(map[string]string{"team": "storefront"})
		_, err = objects.Create(ctx, obj, metav1.CreateOptions{})
		return err
	}
	live, err := objects.Get(ctx, k.name(namespace), metav1.GetOptions{})
	if err != nil {
		return err
	}
	live.Object["spec"] = fields
	_, err = objects.Update(ctx, live, metav1.UpdateOptions{})
	return err
}
