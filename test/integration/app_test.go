//go:build integration

package integration

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// smallest returns a spec with only the required fields of App, and a readiness probe: see framework.ProbedApp.
func smallest() v1alpha1.AppSpec { return framework.ProbedApp("shop:1") }

func TestAppWaitsForReferencedSecret(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	spec := smallest()
	spec.EnvFrom = []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "key"}}},
	}
	shared.CreateApp(t, namespace, "shop", spec)
	waiting := shared.AppReason(t, namespace, "shop", "DependencyMissing")
	ready := meta.FindStatusCondition(waiting.Status.Conditions, "Ready")
	if waiting.Status.Phase != v1alpha1.AppPending || !strings.Contains(ready.Message, "Secret key") {
		t.Errorf("the phase is %s, with the message %q", waiting.Status.Phase, ready.Message)
	}
	deployments, err := shared.Kube.AppsV1().Deployments(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(deployments.Items) > 0 {
		t.Errorf("the Deployment exists before the Secret: %v", err)
	}
	shared.CreateSecret(t, namespace, "key", map[string]string{"KEY": "one"})
	shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)

	digest := podDigest(t, namespace, "shop")
	patchSecret(t, namespace, "key", `{"metadata":{"labels":{"touched":"yes"}}}`)
	shared.CreateApp(t, namespace, "marker", spec)
	shared.AppIn(t, namespace, "marker", v1alpha1.AppReady)
	if got := podDigest(t, namespace, "shop"); got != digest {
		t.Error("a changed label of the Secret replaced the Pods")
	}
	patchSecret(t, namespace, "key", `{"stringData":{"KEY":"two"}}`)
	framework.Eventually(t, "the Pods to be replaced", func(context.Context) (bool, error) {
		return podDigest(t, namespace, "shop") != digest, nil
	})
	shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
}

func patchSecret(t *testing.T, namespace, name, patch string) {
	t.Helper()
	_, err := shared.Kube.CoreV1().Secrets(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("changing Secret %s: %v", name, err)
	}
}

// podDigest returns the digest of the inputs in the Pod template of a Deployment. A change of the digest replaces the
// Pods.
func podDigest(t *testing.T, namespace, name string) string {
	t.Helper()
	d, err := shared.Kube.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("getting Deployment %s: %v", name, err)
	}
	return d.Spec.Template.Annotations["windlass.dev/inputs-digest"]
}

func TestAppReadyReflectsRollout(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.CreateApp(t, namespace, "shop", smallest())
	shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)

	// No node has that much CPU, so the new Pods never start.
	shared.UpdateApp(t, namespace, "shop", func(app *v1alpha1.App) {
		app.Spec.Image = "shop:2"
		app.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100k")}
	})
	shared.AppReason(t, namespace, "shop", "RollingOut")
	// Another client may set the progress deadline.
	if _, err := shared.Kubectl(t.Context(), "", "patch", "deployment", "shop", "-n", namespace, "-p",
		`{"spec":{"progressDeadlineSeconds":1}}`); err != nil {
		t.Fatal(err)
	}
	stuck := shared.AppIn(t, namespace, "shop", v1alpha1.AppFailed)
	for kind, want := range map[string]metav1.ConditionStatus{
		"Ready": "False", "Progressing": "False", "Degraded": "True", "Stalled": "True",
	} {
		c := meta.FindStatusCondition(stuck.Status.Conditions, kind)
		if c == nil || c.Status != want || c.Reason != "ProgressDeadlineExceeded" {
			t.Errorf("condition %s is %+v, want %s with reason ProgressDeadlineExceeded", kind, c, want)
		}
	}
	shared.UpdateApp(t, namespace, "shop", func(app *v1alpha1.App) { app.Spec.Resources = corev1.ResourceRequirements{} })
	shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)

	if _, err := shared.Kubectl(t.Context(), "", "scale", "app/shop", "-n", namespace, "--replicas=0"); err != nil {
		t.Fatal(err)
	}
	zero := shared.AppWith(t, namespace, "shop", "scaled to zero", func(app *v1alpha1.App) bool {
		return app.Status.Phase == v1alpha1.AppReady && app.Status.Replicas == 0
	})
	if zero.Status.Selector == "" {
		t.Error("the scale subresource has no selector")
	}
	if _, err := shared.Kubectl(t.Context(), "", "scale", "app/shop", "-n", namespace, "--replicas=3"); err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Kubectl(t.Context(), "", "wait", "app/shop", "-n", namespace, "--for=condition=Ready",
		"--timeout=60s"); err != nil {
		t.Fatal(err)
	}
	shared.AppWith(t, namespace, "shop", "scaled to three", func(app *v1alpha1.App) bool {
		return app.Status.ReadyReplicas == 3
	})
}

func TestInvalidAppsAreRejectedAndCreateNothing(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	for name, c := range map[string]struct {
		change func(*v1alpha1.App)
		want   string
	}{
		"no image":              {func(a *v1alpha1.App) { a.Spec.Image = "" }, "spec.image"},
		"an image with a space": {func(a *v1alpha1.App) { a.Spec.Image = "shop: 1" }, "spec.image"},
		"a port above 65535":    {func(a *v1alpha1.App) { a.Spec.Port = 65536 }, "spec.port"},
		"a negative port":       {func(a *v1alpha1.App) { a.Spec.Port = -1 }, "spec.port"},
		"negative replicas":     {func(a *v1alpha1.App) { a.Spec.Replicas = ptr.To[int32](-1) }, "spec.replicas"},
		"an invalid host": {
			func(a *v1alpha1.App) { a.Spec.Ingress = &v1alpha1.AppIngress{Host: "Shop_1"} }, "spec.ingress.host",
		},
		"an invalid path": {
			func(a *v1alpha1.App) { a.Spec.Ingress = &v1alpha1.AppIngress{Host: "a.b", Path: "/../x"} }, "spec.ingress.path",
		},
		"a minimum above the maximum": {func(a *v1alpha1.App) {
			a.Spec.Autoscaling = &v1alpha1.AppAutoscaling{MinReplicas: ptr.To[int32](3), MaxReplicas: 2}
		}, "minReplicas must not be greater than"},
		"files that are too large together": {func(a *v1alpha1.App) {
			a.Spec.Config = map[string]string{"large": strings.Repeat("x", 512<<10), "more": "x"}
		}, "524288 characters in total"},
		"a file with a slash": {
			func(a *v1alpha1.App) { a.Spec.Config = map[string]string{"a/b": ""} }, "the name of a file",
		},
		"a name too long for a Service": {func(a *v1alpha1.App) { a.Name = strings.Repeat("a", 64) }, "63 characters"},
		"a name with a dot":             {func(a *v1alpha1.App) { a.Name = "a.b" }, "the name must be valid for a Service"},
	} {
		t.Run(name, func(t *testing.T) {
			app := &v1alpha1.App{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, Spec: smallest()}
			c.change(app)
			_, err := shared.Windlass.WindlassV1alpha1().Apps(namespace).Create(t.Context(), app, metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an Invalid error with %q", err, c.want)
			}
		})
	}
	// The Go client omits a port of 0, but other clients may send it.
	_, err := shared.Kubectl(t.Context(),
		`{"apiVersion":"windlass.dev/v1alpha1","kind":"App","metadata":{"name":"zero"},"spec":{"image":"shop:1","port":0}}`,
		"create", "-n", namespace, "-f", "-")
	if err == nil || !strings.Contains(err.Error(), "spec.port") {
		t.Errorf("creating an App with port 0: got %v, want an error with spec.port", err)
	}
	// The API server rejects objects of this size.
	huge := &v1alpha1.App{ObjectMeta: metav1.ObjectMeta{Name: "huge"}, Spec: smallest()}
	huge.Spec.Config = map[string]string{"huge": strings.Repeat("x", 4<<20)}
	if _, err := shared.Windlass.WindlassV1alpha1().Apps(namespace).Create(t.Context(), huge,
		metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("creating an App with 4 MiB of config: got %v, want an error with %q", err, "too large")
	}
	// The schema allows this config, but the config does not fit into a ConfigMap: each character takes three bytes.
	spec := smallest()
	spec.Config = map[string]string{"large": strings.Repeat("€", 400<<10), "more": "x"}
	shared.CreateApp(t, namespace, "large", spec)
	large := shared.AppReason(t, namespace, "large", "TooLarge")
	if ready := meta.FindStatusCondition(large.Status.Conditions, "Ready"); !strings.Contains(ready.Message, "1048576") {
		t.Errorf("the message is %q, want a message with 1048576", ready.Message)
	}
	for _, request := range requests(t, namespace) {
		if strings.HasPrefix(request, "create") && !strings.HasPrefix(request, "create configmaps") {
			t.Errorf("an App that is too large led to the request %s", request)
		}
	}
}
