//go:build integration

package neighbours

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	windlassscheme "windlass.dev/windlass/pkg/generated/clientset/versioned/scheme"
	"windlass.dev/windlass/test/framework"
)

// inGit returns the objects that a team keeps in Git for a namespace: an object of each kind that uses every field, and
// the objects that these refer to.
func inGit(t *testing.T, namespace string) []*unstructured.Unstructured {
	t.Helper()
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"team": "storefront"}}
	}
	app, outside := framework.EverythingOfApp(), ofNamespace(framework.EverythingOfExternalDatabase(), namespace)
	app.DatabaseRef.Name = "orders"
	platform := framework.EverythingOfPlatform()
	platform.Namespace = namespace
	ofWeb := platform.Components[framework.WebComponent].App
	ofWeb.DatabaseRef.Name = "orders"
	// The cluster has no metrics: after five minutes, the status of an App would say that its autoscaler cannot scale.
	app.Autoscaling, ofWeb.Autoscaling = nil, nil
	ofPlatform := platform.Components[framework.OutsideComponent].ExternalDatabase
	*ofPlatform = ofNamespace(*ofPlatform, "platform-of-"+namespace)
	objects := []runtime.Object{
		&corev1.Secret{ObjectMeta: meta("payment"), StringData: map[string]string{"key": "x"}},
		&corev1.ConfigMap{ObjectMeta: meta("settings"), Data: map[string]string{"A": "a"}},
		&corev1.ServiceAccount{ObjectMeta: meta("shop")},
		&corev1.Secret{ObjectMeta: meta("server"), StringData: map[string]string{
			"host": "127.0.0.1", "port": server.Port, "username": server.Superuser, "password": server.Password,
			"sslmode": "disable",
		}},
		&v1alpha1.Database{ObjectMeta: meta("orders"), Spec: framework.EverythingOfDatabase()},
		&v1alpha1.ExternalDatabase{ObjectMeta: meta("outside"), Spec: outside},
		&v1alpha1.App{ObjectMeta: meta("web"), Spec: app},
		&cnatv1.At{ObjectMeta: meta("migrate"), Spec: cnatv1.AtSpec{
			Schedule: "2020-01-01T00:00:00Z", Command: []string{"true"},
		}},
		&v1alpha1.Platform{
			ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"team": "storefront"}}, Spec: platform,
		},
	}
	all := make([]*unstructured.Unstructured, 0, len(objects))
	for _, object := range objects {
		all = append(all, manifest(t, object))
	}
	return all
}

// ofNamespace appends the namespace to the names of the database and its owner, so that they are unique on the server.
func ofNamespace(spec v1alpha1.ExternalDatabaseSpec, namespace string) v1alpha1.ExternalDatabaseSpec {
	spec.DatabaseName, spec.Owner = spec.DatabaseName+"-"+namespace, spec.Owner+"-"+namespace
	return spec
}

// manifest returns an object as a person writes it.
func manifest(t *testing.T, object runtime.Object) *unstructured.Unstructured {
	t.Helper()
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		if kinds, _, err = windlassscheme.Scheme.ObjectKinds(object); err != nil {
			t.Fatal(err)
		}
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	delete(fields, "status")
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	written := &unstructured.Unstructured{Object: fields}
	written.SetGroupVersionKind(kinds[0])
	return written
}

// theirsInGit are objects of a team, of the types that the operator creates.
const theirsInGit = `
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: theirs}, spec: {replicas: 1,
    selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},
    spec: {containers: [{name: theirs, image: theirs:1}]}}}}
- {apiVersion: apps/v1, kind: StatefulSet, metadata: {name: theirs}, spec: {replicas: 0, serviceName: theirs,
    selector: {matchLabels: {c: d}}, template: {metadata: {labels: {c: d}},
    spec: {containers: [{name: theirs, image: theirs:1}]}}}}
- {apiVersion: v1, kind: Service, metadata: {name: theirs}, spec: {ports: [{port: 1}]}}
- {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: theirs},
    spec: {accessModes: [ReadWriteOnce], storageClassName: standard, resources: {requests: {storage: 1Gi}}}}
- {apiVersion: v1, kind: Pod, metadata: {name: theirs}, spec: {containers: [{name: theirs, image: theirs:1}]}}
- {apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: theirs},
    spec: {defaultBackend: {service: {name: theirs, port: {number: 1}}}}}
- {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: theirs}, spec: {maxUnavailable: 1,
    selector: {matchLabels: {a: b}}}}
- {apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: theirs}, spec: {maxReplicas: 1,
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: theirs}}}
`

// theirs returns an object of each type that the operator creates. The tools prune only objects of types that they
// apply.
func theirs(t *testing.T, namespace string) (all []*unstructured.Unstructured) {
	t.Helper()
	var list []map[string]any
	if err := yaml.Unmarshal([]byte(theirsInGit), &list); err != nil {
		t.Fatal(err)
	}
	for _, fields := range list {
		object := &unstructured.Unstructured{Object: fields}
		object.SetNamespace(namespace)
		all = append(all, object)
	}
	return all
}

// without returns the objects except for the object of a kind with a name.
func without(git []*unstructured.Unstructured, kind, name string) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(git), func(o *unstructured.Unstructured) bool {
		return o.GetKind() == kind && o.GetName() == name
	})
}

// changed returns copies of the objects, with a field of each kind of Windlass set to another value.
func changed(t *testing.T, git []*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	fields := map[string][]string{"App": {"image"}, "Database": {"parameters", "work_mem"}}
	values := map[string]string{"App": "other:1", "Database": "16MB"}
	all := make([]*unstructured.Unstructured, 0, len(git))
	for _, object := range git {
		object = object.DeepCopy()
		if field, ok := fields[object.GetKind()]; ok {
			if err := unstructured.SetNestedField(object.Object, values[object.GetKind()],
				append([]string{"spec"}, field...)...); err != nil {
				t.Fatal(err)
			}
		}
		if object.GetKind() == "ExternalDatabase" {
			unstructured.RemoveNestedField(object.Object, "spec", "extensions")
		}
		all = append(all, object)
	}
	return all
}
