//go:build integration

package integration

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestReconcileRemovesConflictingForeignFields sets fields of children as another client. The API server rejects an
// object that has both these fields and the fields that the operator sets.
func TestReconcileRemovesConflictingForeignFields(t *testing.T) {
	t.Parallel()
	client := dynamicClient(t)
	fresh := apps.createReady(t, framework.EverythingOfApp())
	namespace := apps.createReady(t, framework.EverythingOfApp())
	for _, args := range [][]string{
		{"set", "env", "deployment/shop", "KEY=theirs", "DATABASE_URL=theirs"},
		{
			"patch", "deployment", "shop", "-p",
			`{"spec":{"template":{"spec":{"containers":[{"name":"shop","readinessProbe":{"httpGet":null,` +
				`"tcpSocket":{"port":1}}}]}}}}`,
		},
		{
			"patch", "deployment", "shop", "-p",
			`{"spec":{"template":{"spec":{"securityContext":{"seccompProfile":{"type":"Localhost",` +
				`"localhostProfile":"theirs"}}}}}}`,
		},
		{"patch", "poddisruptionbudget", "shop", "-p", `{"spec":{"maxUnavailable":null,"minAvailable":1}}`},
	} {
		if _, err := shared.Kubectl(t.Context(), "", append(args, "-n", namespace)...); err != nil {
			t.Fatal(err)
		}
		apps.waitSame(t, client, fresh, namespace, "corrected")
	}
}

func TestReconcileKeepsForeignFields(t *testing.T) {
	t.Parallel()
	namespace := shared.NewNamespace(t)
	shared.CreateReferences(t, namespace)
	shared.CreateApp(t, namespace, "shop", framework.EverythingOfApp())
	shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
	for _, args := range [][]string{
		{"annotate", "service/shop", "theirs=yes"},
		{"rollout", "restart", "deployment/shop"},
		{"scale", "deployment/shop", "--replicas=4"}, // as the autoscaler does
		{
			"patch", "deployment", "shop", "-p",
			`{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"proxy:1"}]}}}}`,
		},
	} {
		if _, err := shared.Kubectl(t.Context(), "", append(args, "-n", namespace)...); err != nil {
			t.Fatal(err)
		}
	}
	shared.AppWith(t, namespace, "shop", "scaled by another client", func(app *v1alpha1.App) bool {
		return app.Status.Phase == v1alpha1.AppReady && app.Status.Replicas == 4
	})
	// The operator applies a change of the App, and keeps the foreign fields.
	shared.UpdateApp(t, namespace, "shop", func(app *v1alpha1.App) { app.Spec.Image = "shop:2" })
	shared.AppWith(t, namespace, "shop", "rolled out", func(app *v1alpha1.App) bool {
		return app.Status.Phase == v1alpha1.AppReady
	})
	d, err := shared.Kube.AppsV1().Deployments(namespace).Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := d.Spec.Template
	if *d.Spec.Replicas != 4 || pod.Annotations["kubectl.kubernetes.io/restartedAt"] == "" ||
		len(pod.Spec.Containers) != 2 {
		t.Errorf("foreign changes were reverted: %d replicas, annotations %v, %d containers", *d.Spec.Replicas,
			pod.Annotations, len(pod.Spec.Containers))
	}
	for _, container := range pod.Spec.Containers {
		if container.Name == "shop" && container.Image != "shop:2" {
			t.Errorf("the image is %s, want shop:2", container.Image)
		}
	}
	service, err := shared.Kube.CoreV1().Services(namespace).Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil || service.Annotations["theirs"] != "yes" {
		t.Errorf("the foreign annotation was removed: %v", err)
	}
}

func TestReconcileDeletesChildrenOfRemovedAppFields(t *testing.T) {
	t.Parallel()
	namespace, client := shared.NewNamespace(t), dynamicClient(t)
	shared.CreateReferences(t, namespace)
	shared.CreateApp(t, namespace, "shop", framework.EverythingOfApp())
	shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
	for _, wanted := range []bool{false, true} {
		shared.UpdateApp(t, namespace, "shop", func(app *v1alpha1.App) {
			app.Spec = framework.EverythingOfApp()
			if !wanted {
				app.Spec = v1alpha1.AppSpec{Image: "shop:1", Ports: []v1alpha1.AppPort{}}
			}
		})
		shared.AppIn(t, namespace, "shop", v1alpha1.AppReady)
		for _, resource := range apps.children {
			always := resource.Resource == "deployments"
			framework.Eventually(t, resource.Resource+" to match the App", func(context.Context) (bool, error) {
				return (resource.get(t, client, namespace) != nil) == (wanted || always), nil
			})
		}
	}
}
