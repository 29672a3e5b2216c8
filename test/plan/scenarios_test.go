//go:build integration

package plan

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
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
	"windlass.dev/windlass/test/framework"
)

// kindOf describes a kind whose specs have type S, for the scenarios of the kind.
type kindOf[S any] struct {
	schema.GroupVersionKind
	plural        string
	clusterScoped bool
	// references creates the objects that the spec names.
	references func(t *testing.T, namespace string)
	// spec returns a spec that sets all fields, for an object in a namespace.
	spec func(namespace string) S
	// ready waits until the object is Ready.
	ready   func(t *testing.T, namespace, name string)
	changes map[string][]func(*S)
	// random changes random fields of the spec. If mayRemove is true, random also makes components Unmanaged or Removed.
	random func(r *rand.Rand, spec *S, mayRemove bool)
	// share is the number of random changes of this kind, as a percentage of all random changes.
	share int
}

var (
	apps = kindOf[v1alpha1.AppSpec]{
		GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind("App"), plural: "apps",
		references: func(t *testing.T, namespace string) { t.Helper(); shared.CreateReferences(t, namespace) },
		spec:       func(string) v1alpha1.AppSpec { return framework.EverythingOfApp() },
		ready: func(t *testing.T, namespace, name string) {
			t.Helper()
			shared.AppIn(t, namespace, name, v1alpha1.AppReady)
		},
		changes: framework.ChangesOfApp, random: randomly(framework.ChangesOfApp), share: 25,
	}
	databases = kindOf[v1alpha1.DatabaseSpec]{
		GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind("Database"), plural: "databases",
		references: func(*testing.T, string) {},
		spec:       func(string) v1alpha1.DatabaseSpec { return framework.EverythingOfDatabase() },
		ready: func(t *testing.T, namespace, name string) {
			t.Helper()
			shared.DatabaseIn(t, namespace, name, v1alpha1.DatabaseReady)
		},
		changes: framework.ChangesOfDatabase, random: randomly(framework.ChangesOfDatabase), share: 50,
	}
	externalDatabases = kindOf[v1alpha1.ExternalDatabaseSpec]{
		GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind("ExternalDatabase"), plural: "externaldatabases",
		references: createConnections,
		spec: func(namespace string) v1alpha1.ExternalDatabaseSpec {
			return ofNamespace(framework.EverythingOfExternalDatabase(), namespace)
		},
		ready: func(t *testing.T, namespace, name string) {
			t.Helper()
			shared.ExternalDatabaseIn(t, namespace, name, v1alpha1.ExternalDatabaseReady)
		},
		changes: framework.ChangesOfExternalDatabase, random: randomly(framework.ChangesOfExternalDatabase), share: 20,
	}
	platforms = kindOf[v1alpha1.PlatformSpec]{
		GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind("Platform"), plural: "platforms", clusterScoped: true,
		references: func(t *testing.T, namespace string) {
			t.Helper()
			shared.CreateReferences(t, namespace)
			createConnections(t, namespace)
		},
		spec: func(namespace string) v1alpha1.PlatformSpec {
			spec := framework.EverythingOfPlatform()
			spec.Namespace = namespace
			outside := spec.Components[framework.OutsideComponent].ExternalDatabase
			*outside = ofNamespace(*outside, namespace)
			return spec
		},
		ready: func(t *testing.T, _, name string) {
			t.Helper()
			shared.PlatformIn(t, name, v1alpha1.PlatformReady)
		},
		changes: framework.ChangesOfPlatform, random: randomPlatform, share: 5,
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
	connection := map[string]string{
		"host": "127.0.0.1", "port": portOfServer(t, namespace), "username": "postgres", "password": server.Password,
		"sslmode": "disable",
	}
	other := maps.Clone(connection)
	other["host"] = "localhost"
	for name, data := range map[string]map[string]string{"server": connection, "other": other} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
		if _, err := shared.Kube.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// scenarios returns the scenarios of all kinds: a quarter of the changes of a single field, and all others.
func scenarios(t *testing.T) []scenario {
	t.Helper()
	single, err := framework.Quarter(slices.Concat(apps.fieldScenarios(), databases.fieldScenarios(),
		externalDatabases.fieldScenarios(), platforms.fieldScenarios(), transitions()))
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(apps.scenarios(), databases.scenarios(), externalDatabases.scenarios(), platforms.scenarios(),
		ats.scenarios(), single, apps.randomScenarios(), databases.randomScenarios(), externalDatabases.randomScenarios(),
		platforms.randomScenarios())
}

// scenarios returns a scenario for the creation of an object, and for the deletion.
func (k kindOf[S]) scenarios() []scenario {
	return []scenario{
		{
			name: k.Kind + "/create", create: k.references, unordered: k.clusterScoped,
			change: func(ctx context.Context, client dynamic.Interface, namespace string) error {
				return k.create(ctx, client, namespace, k.spec(namespace))
			},
		},
		{
			name: k.Kind + "/delete", create: k.creator(unchanged), ready: k.readiness, unordered: true, collects: true,
			change: func(ctx context.Context, client dynamic.Interface, namespace string) error {
				return k.client(client, namespace).Delete(ctx, k.name(namespace), metav1.DeleteOptions{})
			},
		},
	}
}

// fieldScenarios returns a scenario for each change of a field.
func (k kindOf[S]) fieldScenarios() (all []scenario) {
	for _, field := range slices.Sorted(maps.Keys(k.changes)) {
		for i, change := range k.changes[field] {
			all = append(all, k.scenario(fmt.Sprintf("%s/%s-%d", k.Kind, field, i+1), unchanged, change))
		}
	}
	return all
}

func unchanged[S any](*S) {}

// scenario returns a scenario that changes a spec. from turns the spec with all fields into the spec before the change,
// and to turns it into the spec after the change.
func (k kindOf[S]) scenario(name string, from, to func(*S)) scenario {
	before, after := k.spec(""), k.spec("")
	from(&before)
	to(&after)
	return scenario{
		name: name, create: k.creator(from), ready: k.readiness, unordered: k.clusterScoped,
		grows: !slices.Equal(volumesOf(before), volumesOf(after)), collects: removes(before, after),
		change: func(ctx context.Context, client dynamic.Interface, namespace string) error {
			spec := k.spec(namespace)
			to(&spec)
			return k.update(ctx, client, namespace, spec)
		},
	}
}

// volumesOf returns the sizes of the volumes of a spec.
func volumesOf(spec any) (sizes []string) {
	switch spec := spec.(type) {
	case v1alpha1.DatabaseSpec:
		return []string{spec.Storage.Size.String()}
	case v1alpha1.PlatformSpec:
		for _, c := range spec.Components {
			if c.Database != nil {
				sizes = append(sizes, c.Database.Storage.Size.String())
			}
		}
	}
	return sizes
}

// removes reports whether a change removes components of a Platform.
func removes(before, after any) bool {
	from, isPlatform := before.(v1alpha1.PlatformSpec)
	if !isPlatform {
		return false
	}
	to, _ := after.(v1alpha1.PlatformSpec)
	return slices.ContainsFunc(from.Components, func(c v1alpha1.PlatformComponent) bool {
		i := slices.IndexFunc(to.Components, func(other v1alpha1.PlatformComponent) bool { return other.Name == c.Name })
		return c.ManagementState != v1alpha1.Removed && (i < 0 || to.Components[i].ManagementState == v1alpha1.Removed)
	})
}

// creator returns a function that creates the object, and the objects that its spec names.
func (k kindOf[S]) creator(from func(*S)) func(t *testing.T, namespace string) {
	return func(t *testing.T, namespace string) {
		t.Helper()
		k.references(t, namespace)
		spec := k.spec(namespace)
		from(&spec)
		if err := k.create(t.Context(), dynamic.NewForConfigOrDie(shared.Config()), namespace, spec); err != nil {
			t.Fatal(err)
		}
	}
}

func (k kindOf[S]) readiness(t *testing.T, namespace string) {
	t.Helper()
	k.ready(t, namespace, k.name(namespace))
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

func (k kindOf[S]) create(ctx context.Context, client dynamic.Interface, namespace string, spec S) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return err
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	obj.SetGroupVersionKind(k.GroupVersionKind)
	obj.SetName(k.name(namespace))
	obj.SetLabels(map[string]string{"team": "storefront"})
	_, err = k.client(client, namespace).Create(ctx, obj, metav1.CreateOptions{})
	return err
}

func (k kindOf[S]) update(ctx context.Context, client dynamic.Interface, namespace string, spec S) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return err
	}
	objects := k.client(client, namespace)
	live, err := objects.Get(ctx, k.name(namespace), metav1.GetOptions{})
	if err != nil {
		return err
	}
	live.Object["spec"] = fields
	_, err = objects.Update(ctx, live, metav1.UpdateOptions{})
	return err
}
