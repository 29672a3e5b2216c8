//go:build integration

package security

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// helmLabels are the labels of a Pod that Helm installs from the chart app as the release web.
var helmLabels = labels.Set{
	"app.kubernetes.io/name": "app", "app.kubernetes.io/instance": "web", "app.kubernetes.io/managed-by": "Helm",
}

// TestAppServiceDoesNotSelectHelmPod checks that neither the Service nor the PodDisruptionBudget of an App selects a
// foreign Pod with the labels app.kubernetes.io/name=app and app.kubernetes.io/instance=web.
func TestAppServiceDoesNotSelectHelmPod(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	two := int32(2)
	spec := framework.ProbedApp("registry.example.com/web:1")
	spec.Replicas = &two
	tenant.CreateApp(t, tenant.Namespace, "web", spec)
	tenant.AppIn(t, tenant.Namespace, "web", v1alpha1.AppReady)
	service, err := tenant.Kube.CoreV1().Services(tenant.Namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if labels.SelectorFromSet(service.Spec.Selector).Matches(helmLabels) {
		t.Errorf("the Service selects the Pod of Helm: %v", service.Spec.Selector)
	}
	budget, err := shared.Kube.PolicyV1().PodDisruptionBudgets(tenant.Namespace).Get(t.Context(), "web",
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if labels.SelectorFromSet(budget.Spec.Selector.MatchLabels).Matches(helmLabels) {
		t.Errorf("the PodDisruptionBudget selects the Pod of Helm: %v", budget.Spec.Selector)
	}
	deployment, err := tenant.Kube.AppsV1().Deployments(tenant.Namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod := deployment.Spec.Template; !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels)) {
		t.Errorf("the selector %v of the Service does not match the labels %v of the Pods", service.Spec.Selector, pod.Labels)
	} else if token := pod.Spec.AutomountServiceAccountToken; token == nil || *token {
		t.Error("the Pods mount a token of their service account")
	}
}

// TestUpgradeReplacesNoPodOfApp changes an App whose Deployment has the state of an operator version that does not set
// automountServiceAccountToken.
func TestUpgradeReplacesNoPodOfApp(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	tenant.CreateApp(t, tenant.Namespace, "web", framework.ProbedApp("registry.example.com/web:1"))
	tenant.AppIn(t, tenant.Namespace, "web", v1alpha1.AppReady)
	pause(t, tenant.Clients, tenant.Namespace, "true")
	deployments := tenant.Kube.AppsV1().Deployments(tenant.Namespace)
	d, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	record := map[string]any{}
	if err := json.Unmarshal([]byte(d.Annotations["windlass.dev/last-applied"]), &record); err != nil {
		t.Fatal(err)
	}
	template := record["spec"].(map[string]any)["template"].(map[string]any)
	delete(template["spec"].(map[string]any), "automountServiceAccountToken")
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"windlass.dev/last-applied": string(text)}},
		"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{"automountServiceAccountToken": nil}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if d, err = deployments.Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	pause(t, tenant.Clients, tenant.Namespace, "false")
	tenant.UpdateApp(t, tenant.Namespace, "web", func(app *v1alpha1.App) {
		app.Spec.Ingress = &v1alpha1.AppIngress{Host: "web.example.com"}
	})
	tenant.AppIn(t, tenant.Namespace, "web", v1alpha1.AppReady)
	now, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d.Spec, now.Spec); diff != "" {
		t.Errorf("the spec of the Deployment (-before +after):\n%s", diff)
	}
	tenant.UpdateApp(t, tenant.Namespace, "web", func(app *v1alpha1.App) { app.Spec.Image = "registry.example.com/web:2" })
	framework.Eventually(t, "the new Pods to mount no token", func(ctx context.Context) (bool, error) {
		d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		return err == nil && d.Spec.Template.Spec.AutomountServiceAccountToken != nil, err
	})
}

// pause sets the annotation windlass.dev/paused of App web.
func pause(t *testing.T, w *framework.Clients, namespace, value string) {
	t.Helper()
	w.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) {
		metav1.SetMetaDataAnnotation(&app.ObjectMeta, "windlass.dev/paused", value)
	})
}

// TestAppRejectsDatabaseOfOtherKind creates an App that refers to ExternalDatabase orders, which does not exist. The
// Secret of Database orders has the name that the Secret of ExternalDatabase orders would have.
func TestAppRejectsDatabaseOfOtherKind(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	tenant.CreateDatabase(t, tenant.Namespace, "orders", framework.SmallestDatabase())
	tenant.DatabaseIn(t, tenant.Namespace, "orders", v1alpha1.DatabaseReady)
	tenant.CreateApp(t, tenant.Namespace, "web", v1alpha1.AppSpec{
		Image: "registry.example.com/web:1", DatabaseRef: &v1alpha1.DatabaseReference{
			Kind: "ExternalDatabase", Name: "orders",
		},
	})
	tenant.AppReason(t, tenant.Namespace, "web", "DatabaseKindMismatch")
	tenant.UpdateApp(t, tenant.Namespace, "web", func(app *v1alpha1.App) { app.Spec.DatabaseRef.Kind = "Database" })
	tenant.AppIn(t, tenant.Namespace, "web", v1alpha1.AppReady)
}
