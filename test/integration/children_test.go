//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/world"
)

// recordAnnotation holds what the operator wants of a child.
const recordAnnotation = "windlass.dev/last-applied"

// childTypes are those of an App that uses every field.
var childTypes = []schema.GroupVersionResource{
	{Version: "v1", Resource: "configmaps"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Version: "v1", Resource: "services"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
}

func dynamicClient(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(shared.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// child reads one, or returns nil.
func child(t *testing.T, client dynamic.Interface, resource schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	object, err := client.Resource(resource).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatalf("reading %s %s: %v", resource.Resource, name, err)
	}
	return object
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

// essence is a child without what the server decides, or what differs from one
// owner to another.
func essence(object *unstructured.Unstructured) map[string]any {
	fields := asWritten(object)
	for _, path := range [][]string{
		{"metadata", "uid"}, {"metadata", "creationTimestamp"}, {"metadata", "namespace"}, {"metadata", "ownerReferences"},
		{"metadata", "annotations", recordAnnotation}, {"metadata", "annotations", "windlass.dev/inputs"},
		{"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "template", "metadata", "annotations", "windlass.dev/inputs-digest"},
		{"spec", "replicas"}, // the autoscaler's
	} {
		unstructured.RemoveNestedField(fields, path...)
	}
	dropEmptyAnnotations(fields)
	return fields
}

func TestADeletedChildIsMadeAgain(t *testing.T) {
	t.Parallel()
	namespace, client := shared.NewNamespace(t), dynamicClient(t)
	shared.MakeReferences(t, namespace)
	shared.CreateApp(t, namespace, "shop", world.Everything())
	shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
	for _, resource := range childTypes {
		before := child(t, client, resource, namespace, "shop")
		if err := client.Resource(resource).Namespace(namespace).Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
			t.Fatalf("deleting %s: %v", resource.Resource, err)
		}
		world.Eventually(t, resource.Resource+" to be made again", func(context.Context) (bool, error) {
			again := child(t, client, resource, namespace, "shop")
			return again != nil && again.GetUID() != before.GetUID(), nil
		})
		if diff := cmp.Diff(essence(before), essence(child(t, client, resource, namespace, "shop"))); diff != "" && resource.Resource != "deployments" {
			t.Errorf("%s (-before +after):\n%s", resource.Resource, diff)
		}
	}
	shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
}

// TestWhatExcludesOursIsTakenOut has others set fields beside which the API server
// would refuse ours.
func TestWhatExcludesOursIsTakenOut(t *testing.T) {
	t.Parallel()
	client, fresh, namespace := dynamicClient(t), made(t, world.Everything()), made(t, world.Everything())
	for _, args := range [][]string{
		{"set", "env", "deployment/shop", "KEY=theirs", "DATABASE_URL=theirs"},
		{"patch", "deployment", "shop", "-p", `{"spec":{"template":{"spec":{"containers":[{"name":"app","readinessProbe":{"httpGet":null,"tcpSocket":{"port":1}}}]}}}}`},
		{"patch", "deployment", "shop", "-p", `{"spec":{"template":{"spec":{"securityContext":{"seccompProfile":{"type":"Localhost","localhostProfile":"theirs"}}}}}}`},
		{"patch", "poddisruptionbudget", "shop", "-p", `{"spec":{"maxUnavailable":null,"minAvailable":1}}`},
	} {
		if _, err := shared.Kubectl(t.Context(), "", append(args, "-n", namespace)...); err != nil {
			t.Fatal(err)
		}
		same(t, client, fresh, namespace, "put right")
	}
}

func TestWhatOthersSetStays(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.MakeReferences(t, namespace)
	shared.CreateApp(t, namespace, "shop", world.Everything())
	shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
	for _, args := range [][]string{
		{"annotate", "service/shop", "theirs=yes"},
		{"rollout", "restart", "deployment/shop"},
		{"scale", "deployment/shop", "--replicas=4"}, // as the autoscaler would
		{"patch", "deployment", "shop", "-p", `{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"proxy:1"}]}}}}`},
	} {
		if _, err := shared.Kubectl(t.Context(), "", append(args, "-n", namespace)...); err != nil {
			t.Fatal(err)
		}
	}
	shared.AppWith(t, namespace, "shop", "scaled by others", func(app *v1alpha1.App) bool { return app.Status.Phase == v1alpha1.AppReady && app.Status.Replicas == 4 })
	// A change of ours goes through beside all that.
	shared.UpdateApp(t, namespace, "shop", func(app *v1alpha1.App) { app.Spec.Image = "shop:2" })
	shared.AppWith(t, namespace, "shop", "rolled out", func(app *v1alpha1.App) bool { return app.Status.Phase == v1alpha1.AppReady })
	d, err := shared.Kube.AppsV1().Deployments(namespace).Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := d.Spec.Template
	if *d.Spec.Replicas != 4 || pod.Annotations["kubectl.kubernetes.io/restartedAt"] == "" || len(pod.Spec.Containers) != 2 {
		t.Errorf("others' changes were undone: %d replicas, annotations %v, %d containers", *d.Spec.Replicas, pod.Annotations, len(pod.Spec.Containers))
	}
	for _, container := range pod.Spec.Containers {
		if container.Name == "app" && container.Image != "shop:2" {
			t.Errorf("the image is %s", container.Image)
		}
	}
	service, err := shared.Kube.CoreV1().Services(namespace).Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil || service.Annotations["theirs"] != "yes" {
		t.Errorf("the annotation is gone: %v", err)
	}
}

func TestANameThatIsTakenIsLeftAlone(t *testing.T) {
	t.Parallel()
	manifests := map[string]string{
		"configmaps":               `{"apiVersion":"v1","kind":"ConfigMap","data":{"theirs":"yes"}}`,
		"deployments":              `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"theirs","image":"theirs:1"}]}}}}`,
		"services":                 `{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":1}]}}`,
		"ingresses":                `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","spec":{"defaultBackend":{"service":{"name":"theirs","port":{"number":1}}}}}`,
		"horizontalpodautoscalers": `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","spec":{"maxReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"theirs"}}}`,
		"poddisruptionbudgets":     `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}}`,
	}
	client := dynamicClient(t)
	for _, resource := range childTypes {
		for whose, owned := range map[string]bool{"nobody's": false, "somebody's": true} {
			t.Run(whose+" "+resource.Resource, func(t *testing.T) {
				t.Parallel()
				namespace := shared.NewNamespace(t)
				shared.MakeReferences(t, namespace)
				theirs := &unstructured.Unstructured{}
				if err := json.Unmarshal([]byte(manifests[resource.Resource]), &theirs.Object); err != nil {
					t.Fatal(err)
				}
				theirs.SetName("shop")
				if owned {
					theirs.SetOwnerReferences([]metav1.OwnerReference{someOwner(t, namespace)})
				}
				if _, err := client.Resource(resource).Namespace(namespace).Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
					t.Fatalf("creating theirs: %v", err)
				}
				settled := asWritten(child(t, client, resource, namespace, "shop"))
				shared.CreateApp(t, namespace, "shop", world.Everything())
				shared.ReadyReason(t, namespace, "shop", "NameConflict")
				if diff := cmp.Diff(settled, asWritten(child(t, client, resource, namespace, "shop"))); diff != "" {
					t.Errorf("their object (-before +after):\n%s", diff)
				}
				if owned {
					deleteApp(t, namespace)
					if diff := cmp.Diff(settled, asWritten(child(t, client, resource, namespace, "shop"))); diff != "" {
						t.Errorf("their object once the App is gone (-before +after):\n%s", diff)
					}
					return
				}
				if err := client.Resource(resource).Namespace(namespace).Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				shared.AppIn(t, namespace, "shop", v1alpha1.AppReady) // at its next look
			})
		}
	}
}

// deleteApp deletes the App "shop", and returns when it and its children are gone.
func deleteApp(t *testing.T, namespace string) {
	t.Helper()
	if _, err := shared.Kubectl(t.Context(), "", "delete", "app", "shop", "-n", namespace, "--cascade=foreground", "--timeout=100s"); err != nil {
		t.Fatal(err)
	}
}

// someOwner is an object that controls others.
func someOwner(t *testing.T, namespace string) metav1.OwnerReference {
	t.Helper()
	account, err := shared.Kube.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return *metav1.NewControllerRef(account, schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"})
}
