//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"windlass.dev/windlass/test/cluster"
	"windlass.dev/windlass/test/place"
	"windlass.dev/windlass/test/world"
)

// owner is a kind that owns children, as the tests see it that hold for all of them.
type owner interface {
	// name is that of the resource, for kubectl.
	name() string
	// object is the name of its object for a namespace, and the namespace of that.
	object(namespace string) (in, name string)
	// concerns tells whether a request of the controller is about that object.
	concerns(r cluster.Request, namespace string) bool
	// childTypes are those of an object that uses every field.
	childTypes() []childType
	// prepare makes what an object that uses every field refers to.
	prepare(t *testing.T, on *place.Place, namespace string)
	// create makes an object that uses every field.
	create(t *testing.T, on *place.Place, namespace string)
	// ready returns when the newest generation is Ready.
	ready(t *testing.T, on *place.Place, namespace string)
	// waitsFor returns when the newest generation's condition Ready has a reason.
	waitsFor(t *testing.T, namespace, reason string)
	// requests are what it costs to make an object that uses every field.
	requests(namespace string) []string
	// restart are those that it costs when the controller is started anew.
	restart(namespace string) []string
	// comeAndGo changes every field, and changes it back.
	comeAndGo(t *testing.T)
}

// owners are all kinds that own children.
var owners = []owner{&apps, &databases, &externalDatabases, &platforms}

// forAll runs a test for every kind that owns children.
func forAll(t *testing.T, test func(t *testing.T, o owner)) {
	t.Parallel()
	for _, o := range owners {
		t.Run(o.name(), func(t *testing.T) {
			t.Parallel()
			test(t, o)
		})
	}
}

// makeEverything makes an object that uses every field, and returns when it is Ready.
func makeEverything(t *testing.T, o owner, on *place.Place, namespace string) {
	t.Helper()
	o.prepare(t, on, namespace)
	o.create(t, on, namespace)
	o.ready(t, on, namespace)
}

// kindOf is a kind whose spec is S.
type kindOf[S any] struct {
	resource string
	children []childType
	// about is concerns of a kind that is cluster-scoped. Its object is called like the
	// namespace in which the children are.
	about      func(r cluster.Request, namespace string) bool
	everything func() S
	refers     func(t *testing.T, on *place.Place, namespace string)
	make       func(t *testing.T, on *place.Place, namespace string, spec S)
	set        func(t *testing.T, namespace string, spec S)
	isReady    func(t *testing.T, on *place.Place, namespace string)
	hasReason  func(t *testing.T, namespace, reason string)
	costs      func(namespace string) []string
	restarts   func(namespace string) []string
	// changes of each field, by the field's name in JSON: to another value, and to none
	// where that is allowed.
	changes map[string][]func(*S)
	// fixed are the fields that cannot be changed, and oneWay those that cannot be
	// changed back.
	fixed, oneWay []string
}

func (k *kindOf[S]) name() string            { return k.resource }
func (k *kindOf[S]) childTypes() []childType { return k.children }
func (k *kindOf[S]) object(namespace string) (in, name string) {
	if k.about != nil {
		return "", namespace
	}
	return namespace, "shop"
}
func (k *kindOf[S]) concerns(r cluster.Request, namespace string) bool {
	if k.about != nil {
		return k.about(r, namespace)
	}
	return r.ObjectRef.Namespace == namespace
}
func (k *kindOf[S]) prepare(t *testing.T, on *place.Place, namespace string) {
	t.Helper()
	if k.refers != nil {
		k.refers(t, on, namespace)
	}
}
func (k *kindOf[S]) create(t *testing.T, on *place.Place, namespace string) {
	t.Helper()
	k.make(t, on, namespace, k.everything())
}
func (k *kindOf[S]) ready(t *testing.T, on *place.Place, namespace string) {
	t.Helper()
	k.isReady(t, on, namespace)
}
func (k *kindOf[S]) waitsFor(t *testing.T, namespace, reason string) {
	t.Helper()
	k.hasReason(t, namespace, reason)
}
func (k *kindOf[S]) requests(namespace string) []string { return k.costs(namespace) }
func (k *kindOf[S]) restart(namespace string) []string {
	if k.restarts == nil {
		return nil
	}
	return k.restarts(namespace)
}

// childType is a type of children, of which the owner "shop" has one.
type childType struct {
	schema.GroupVersionResource
	// child is its name, in which an asterisk stands for the namespace.
	child string
	// theirs is a manifest of somebody else's object that has the name.
	theirs string
	// undecided are fields that differ from one owner to another, or that others decide.
	undecided [][]string
	// unwatched are fields that the operator does not put right.
	unwatched [][]string
}

func (c childType) name(namespace string) string { return strings.ReplaceAll(c.child, "*", namespace) }

// get reads it, or returns nil.
func (c childType) get(t *testing.T, client dynamic.Interface, namespace string) *unstructured.Unstructured {
	t.Helper()
	object, err := client.Resource(c.GroupVersionResource).Namespace(namespace).Get(t.Context(), c.name(namespace), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatalf("reading %s %s: %v", c.Resource, c.name(namespace), err)
	}
	return object
}

func (c childType) delete(t *testing.T, client dynamic.Interface, namespace string) {
	t.Helper()
	if err := client.Resource(c.GroupVersionResource).Namespace(namespace).Delete(t.Context(), c.name(namespace), metav1.DeleteOptions{}); err != nil {
		t.Fatalf("deleting %s: %v", c.Resource, err)
	}
}

// essence is a child without what the server decides, or what differs from one
// owner to another.
func (c childType) essence(object *unstructured.Unstructured) map[string]any {
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

// makeTheirs makes somebody else's object, or nobody's, under the child's name.
func (c childType) makeTheirs(t *testing.T, client dynamic.Interface, namespace string, owned bool) {
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
		theirs.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(account, schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"})})
	}
	if _, err := client.Resource(c.GroupVersionResource).Namespace(namespace).Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating theirs: %v", err)
	}
}

// seenByGarbageCollection returns when garbage collection knows of the child: before that
// it would not orphan it. It takes events of a type in their order, and deletes an object
// whose owner there is not.
func (c childType) seenByGarbageCollection(t *testing.T, client dynamic.Interface, namespace string) {
	t.Helper()
	later := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(c.theirs), &later.Object); err != nil {
		t.Fatal(err)
	}
	later.SetName("later")
	nobody := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nobody", UID: "no-such-uid"}}
	later.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(nobody, schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"})})
	objects := client.Resource(c.GroupVersionResource).Namespace(namespace)
	if _, err := objects.Create(t.Context(), later, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating an object without an owner: %v", err)
	}
	world.Eventually(t, "garbage collection of "+c.Resource, func(ctx context.Context) (bool, error) {
		_, err := objects.Get(ctx, "later", metav1.GetOptions{})
		return apierrors.IsNotFound(err), world.IgnoreNotFound(err)
	})
}

// recordAnnotation holds what the operator wants of a child.
const recordAnnotation = "windlass.dev/last-applied"

func dynamicClient(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(shared.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// asWritten is an object without what changes with every write, and without what its
// own controller says of it.
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

func nameOf(o owner, namespace string) string {
	_, name := o.object(namespace)
	return name
}
