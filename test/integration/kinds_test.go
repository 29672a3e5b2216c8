//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"windlass.dev/windlass/test/framework"
)

// owner describes a kind that owns children, for the tests of all such kinds. A test namespace belongs to at most one
// object of the kind. The spec of this object sets every field.
type owner struct {
	// name is the singular name of the resource.
	name     string
	children []childType
	// clusterScoped reports whether the kind is cluster-scoped. An object of a cluster-scoped kind has the name of the
	// test namespace.
	clusterScoped bool
	// concerns reports whether a request is about the object that belongs to a test namespace, or about its children.
	concerns func(r framework.Request, namespace string) bool
	// prepare creates the objects that the spec refers to.
	prepare func(t *testing.T, on *framework.Installation, namespace string)
	// ready waits until the newest generation of the object is Ready.
	ready func(t *testing.T, on *framework.Installation, namespace string)
	// waitForReason waits until the condition Ready of the object's newest generation has a reason.
	waitForReason func(t *testing.T, namespace, reason string)
	// requests returns the expected requests of the controller after the creation of the object.
	requests func(namespace string) []string
	// restart returns the expected requests about the object after a restart of the controller.
	restart func(namespace string) []string

	// create creates the object. changeAndRevertFields changes and reverts each field of the spec, and compares the
	// children. asOwner sets both functions.
	create                func(t *testing.T, on *framework.Installation, namespace string)
	changeAndRevertFields func(t *testing.T)
}

// owners describes all kinds that own children.
var owners = []owner{apps.asOwner(), databases.asOwner(), externalDatabases.asOwner(), platforms.asOwner()}

// forAll runs a test for every kind that owns children.
func forAll(t *testing.T, test func(t *testing.T, o owner)) {
	t.Parallel()
	for _, o := range owners {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			test(t, o)
		})
	}
}

// object returns the namespace and name of the object that belongs to a test namespace. A cluster-scoped object has no
// namespace, and has the name of the test namespace.
func (o owner) object(namespace string) (in, name string) {
	if o.clusterScoped {
		return "", namespace
	}
	return namespace, "shop"
}

// createEverything creates an object of a kind and the objects that its spec refers to. It returns when the object is
// Ready.
func createEverything(t *testing.T, o owner, on *framework.Installation, namespace string) {
	t.Helper()
	o.prepare(t, on, namespace)
	o.create(t, on, namespace)
	o.ready(t, on, namespace)
}

// inNamespaceOf reports whether a request is about an object in a namespace. Namespaced kinds use it as concerns.
func inNamespaceOf(r framework.Request, namespace string) bool {
	return r.ObjectRef.Namespace == namespace
}

// kindOf describes a kind that owns children and whose specs have type S.
type kindOf[S any] struct {
	owner
	everything     func() S
	createWithSpec func(t *testing.T, on *framework.Installation, namespace string, spec S)
	setSpec        func(t *testing.T, namespace string, spec S)
	// changes maps the JSON name of each field to functions that set the field to another value. If the field is optional,
	// a function may also remove the value.
	changes map[string][]func(*S)
	// fixed lists the immutable fields, and oneWay lists the fields whose changes cannot be reverted.
	fixed, oneWay []string
	// alone lists the fields that are not changed together with others, because they decide when others take effect.
	alone []string
	// shortForms lists the fields that everything does not set, because it sets their long form.
	shortForms []string
}

// asOwner returns k.owner with the functions create and changeAndRevertFields, which depend on S.
func (k *kindOf[S]) asOwner() owner {
	o := k.owner
	o.create = func(t *testing.T, on *framework.Installation, namespace string) {
		t.Helper()
		k.createWithSpec(t, on, namespace, k.everything())
	}
	o.changeAndRevertFields = k.changeAndRevertFields
	return o
}

// childType is a type of children. Each object of the owning kind has one child of the type.
type childType struct {
	schema.GroupVersionResource
	// child is the name of the child. An asterisk stands for the namespace.
	child string
	// mounted reports whether the child is the ConfigMap that Deployment shop mounts, if there is this Deployment.
	mounted bool
	// theirs is the manifest of a foreign object of the type.
	theirs string
	// undecided lists fields that differ between the children of two objects, or that other clients set.
	undecided [][]string
	// unwatched lists fields whose drift the operator does not correct.
	unwatched [][]string
	// stays is true if the child stays when its owner is deleted, whatever the owner says.
	stays bool
	// condition is the type of the condition that reports a foreign object with the name of the child. It defaults to
	// Ready.
	condition string
	// users selects the Pods that use a claim, as an argument of kubectl.
	users string
}

func (c childType) name(namespace string) string { return strings.ReplaceAll(c.child, "*", namespace) }

// get returns the child, or nil if it does not exist.
func (c childType) get(t *testing.T, client dynamic.Interface, namespace string) *unstructured.Unstructured {
	t.Helper()
	name := c.name(namespace)
	if c.mounted {
		d, err := shared.Kube.AppsV1().Deployments(namespace).Get(t.Context(), "shop", metav1.GetOptions{})
		if err == nil {
			name = mountedConfig(d)
		}
		if name == "" {
			return nil
		}
	}
	object, err := client.Resource(c.GroupVersionResource).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatalf("getting %s %s: %v", c.Resource, c.name(namespace), err)
	}
	return object
}

// mountedConfig returns the name of the ConfigMap with the files of spec.config that the Pods of an App mount, or "".
func mountedConfig(d *appsv1.Deployment) string {
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.Name == "app-config" {
			return v.ConfigMap.Name
		}
	}
	return ""
}

func (c childType) delete(t *testing.T, client dynamic.Interface, namespace string) {
	t.Helper()
	err := client.Resource(c.GroupVersionResource).Namespace(namespace).Delete(t.Context(), c.name(namespace),
		metav1.DeleteOptions{})
	if err != nil {
		t.Fatalf("deleting %s: %v", c.Resource, err)
	}
}

// comparableFields returns the fields of a child that are equal for all objects with equal specs.
func (c childType) comparableFields(object *unstructured.Unstructured) map[string]any {
	fields := asWritten(object)
	for _, path := range append([][]string{
		{"metadata", "uid"}, {"metadata", "creationTimestamp"}, {"metadata", "namespace"}, {"metadata", "ownerReferences"},
		{"metadata", "annotations", recordAnnotation},
	}, c.undecided...) {
		unstructured.RemoveNestedField(fields, path...)
	}
	dropEmptyAnnotations(fields)
	return fields
}

// createForeign creates a foreign object with the name of the child. If owned is true, a ServiceAccount owns the
// object.
func (c childType) createForeign(t *testing.T, client dynamic.Interface, namespace string, owned bool) {
	t.Helper()
	theirs := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(c.theirs), &theirs.Object); err != nil {
		t.Fatal(err)
	}
	theirs.SetName(c.name(namespace))
	if owned {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "somebody"}}
		account, err := shared.Kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		theirs.SetOwnerReferences([]metav1.OwnerReference{
			*metav1.NewControllerRef(account, schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}),
		})
	}
	if _, err := client.Resource(c.GroupVersionResource).Namespace(namespace).Create(t.Context(), theirs,
		metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating a foreign object in %s: %v", c.Resource, err)
	}
}

// waitForGarbageCollector waits until the garbage collector has observed the child. A collector that has not observed
// the child does not orphan it. The collector handles the events of a type in order, so this function creates another
// object with a missing owner, and waits until the collector has deleted that object.
func (c childType) waitForGarbageCollector(t *testing.T, client dynamic.Interface, namespace string) {
	t.Helper()
	later := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(c.theirs), &later.Object); err != nil {
		t.Fatal(err)
	}
	later.SetName("later")
	nobody := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nobody", UID: "no-such-uid"}}
	later.SetOwnerReferences([]metav1.OwnerReference{
		*metav1.NewControllerRef(nobody, schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}),
	})
	objects := client.Resource(c.GroupVersionResource).Namespace(namespace)
	if _, err := objects.Create(t.Context(), later, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating an object with a missing owner: %v", err)
	}
	framework.Eventually(t, "the garbage collector to observe "+c.Resource, func(ctx context.Context) (bool, error) {
		_, err := objects.Get(ctx, "later", metav1.GetOptions{})
		return apierrors.IsNotFound(err), framework.IgnoreNotFound(err)
	})
}

// recordAnnotation is the annotation of a child that holds the state that the operator desired last.
const recordAnnotation = "windlass.dev/last-applied"

func dynamicClient(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(shared.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// asWritten returns the fields of an object without the status, the fields that every write changes, and the
// revision of a Deployment.
func asWritten(object *unstructured.Unstructured) map[string]any {
	if object == nil {
		return map[string]any{}
	}
	fields := object.DeepCopy().Object
	delete(fields, "status")
	for _, name := range []string{"resourceVersion", "generation", "managedFields"} {
		unstructured.RemoveNestedField(fields, "metadata", name)
	}
	unstructured.RemoveNestedField(fields, "metadata", "annotations", "deployment.kubernetes.io/revision")
	dropEmptyAnnotations(fields)
	return fields
}

func dropEmptyAnnotations(fields map[string]any) {
	if annotations, _, _ := unstructured.NestedMap(fields, "metadata", "annotations"); len(annotations) == 0 {
		unstructured.RemoveNestedField(fields, "metadata", "annotations")
	}
}

// nameOf returns the name of the object that belongs to a test namespace.
func nameOf(o owner, namespace string) string {
	_, name := o.object(namespace)
	return name
}
