//go:build integration

package plan

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestRollbackRestoresSpecOfRelease makes three releases, and rolls back four times. The last release waits for a
// missing Secret. For the last rollback, the App is paused.
func TestRollbackRestoresSpecOfRelease(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	first := shared.CreateApp(t, namespace, "web", v1alpha1.AppSpec{
		Image: "web:1", Replicas: ptr.To[int32](1), Ports: []v1alpha1.AppPort{}, Config: map[string]string{"a": "first"},
		Env: []corev1.EnvVar{{Name: "A", Value: "1"}}, Shutdown: &v1alpha1.AppShutdown{GracePeriodSeconds: ptr.To[int64](9)},
		PodTemplate: &cnatv1.PodTemplate{Spec: &runtime.RawExtension{
			Raw: []byte(`{"dnsConfig":{"searches":["b"],"nameservers":["10.0.0.1"]}}`),
		}},
	})
	shared.AppIn(t, namespace, "web", v1alpha1.AppReady)
	second := shared.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) {
		app.Spec = v1alpha1.AppSpec{Image: "web:2", Replicas: ptr.To[int32](2), Port: 81}
	})
	shared.AppIn(t, namespace, "web", v1alpha1.AppReady)
	shared.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) {
		app.Spec.Image, app.Spec.EnvFrom = "web:3", []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "missing"},
		}}}
	})
	shared.AppReason(t, namespace, "web", "DependencyMissing")

	for _, c := range []struct {
		out  string
		want v1alpha1.AppSpec
	}{
		{"app.windlass.dev/web rolled back to revision 2 with image web:2\n", second.Spec},
		{"app.windlass.dev/web rolled back to revision 1 with image web:1\n", first.Spec},
		{"app.windlass.dev/web rolled back to revision 2 with image web:2\n", second.Spec}, // as `kubectl rollout undo`
	} {
		got := windlass(t, shared.Kubeconfig(), "", "rollback", "app/web", "-n", namespace)
		if diff := cmp.Diff(result{out: c.out}, got, cmp.AllowUnexported(result{})); diff != "" {
			t.Fatalf("the command (-want +got):\n%s", diff)
		}
		c.want.Replicas = second.Spec.Replicas
		app := shared.AppIn(t, namespace, "web", v1alpha1.AppReady)
		if diff := cmp.Diff(c.want, app.Spec); diff != "" {
			t.Errorf("the spec after the rollback (-want +got):\n%s", diff)
		}
	}

	windlass(t, shared.Kubeconfig(), "", "pause", "app/web", "-n", namespace)
	paused := windlass(t, shared.Kubeconfig(), "", "rollback", "app/web", "-n", namespace)
	_, advice, _ := strings.Cut(paused.errors, "`kubectl windlass ")
	advice, _, advised := strings.Cut(advice, "`")
	if !advised || paused.code != 0 {
		t.Fatalf("the rollback of the paused App: %v", paused)
	}
	if got := windlass(t, shared.Kubeconfig(), "", strings.Fields(advice)...); got.code != 0 {
		t.Fatalf("%s: %v", advice, got)
	}
	framework.Eventually(t, "the Deployment to have the previous image", func(ctx context.Context) (bool, error) {
		d, err := shared.Kube.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
		return err == nil && d.Spec.Template.Spec.Containers[0].Image == first.Spec.Image, err
	})
}
