package app

import (
	"errors"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

func twoReplicas(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](2) }

// TestServiceAndBudgetSelectPodsByAppLabel checks that the selectors match no Pod of a Helm chart, even while another
// client has removed the label from the Pod template.
func TestServiceAndBudgetSelectPodsByAppLabel(t *testing.T) {
	f := readyFixture(t, twoReplicas)
	want := map[string]string{
		"app.kubernetes.io/name": "app", "app.kubernetes.io/instance": "web", "windlass.dev/app": "web",
	}
	check := func(when string) {
		t.Helper()
		service := kindtest.Get[*corev1.Service](f.Cluster, "default", "web")
		budget := kindtest.Get[*policyv1.PodDisruptionBudget](f.Cluster, "default", "web")
		controllertest.Equal(t, "selector of the Service "+when, want, service.Spec.Selector)
		controllertest.Equal(t, "selector of the budget "+when, want, budget.Spec.Selector.MatchLabels)
		controllertest.Equal(t, "label of the template "+when, "web", f.deployment().Spec.Template.Labels[appLabel])
	}
	check("at first")
	f.changeDeployment(func(d *appsv1.Deployment) { delete(d.Spec.Template.Labels, appLabel) })
	r := f.Reconcile()
	controllertest.ErrorContains(t, "", r.Err)
	controllertest.Equal(t, "writes", []string{"patch deployments default/web", updateStatus}, r.Writes)
	check("after the label was restored")
}

// TestIngressKeepsClassAfterRejectedMerges corrects an Ingress whose class the API server has set at its creation.
func TestIngressKeepsClassAfterRejectedMerges(t *testing.T) {
	f := readyFixture(t, func(app *v1alpha1.App) {
		app.Spec.Ingress = &v1alpha1.AppIngress{Host: "a.example.com", Path: "/"}
	})
	kindtest.Change(f.Cluster, "default", "web", func(i *networkingv1.Ingress) {
		i.Spec.IngressClassName, i.Spec.Rules[0].Host = ptr.To("nginx"), "b.example.com"
	})
	why := field.ErrorList{field.Invalid(field.NewPath("spec", "rules"), "", "has another field")}
	for range 2 {
		f.Journal.FailNext("patch", "ingresses", apierrors.NewInvalid(schema.GroupKind{Kind: "Ingress"}, "web", why))
	}
	r := f.Reconcile()
	const patch = "patch ingresses default/web"
	controllertest.Equal(t, "writes", []string{patch, patch, patch}, r.Writes)
	live := kindtest.Get[*networkingv1.Ingress](f.Cluster, "default", "web")
	controllertest.Equal(t, "host", "a.example.com", live.Spec.Rules[0].Host)
	controllertest.Equal(t, "class", ptr.To("nginx"), live.Spec.IngressClassName)
}

// TestAppWithoutDeploymentHasNoAutoscalerAndNoBudget checks that no autoscaler scales the Deployment of somebody else.
func TestAppWithoutDeploymentHasNoAutoscalerAndNoBudget(t *testing.T) {
	foreign := deploymentWith(example(), nil)
	foreign.Namespace, foreign.Name, foreign.UID, foreign.ResourceVersion = "default", "web", "foreign", "7"
	foreign.Labels[controller.ManagedByLabel] = controller.ManagedByWindlass // so that it is in the cache
	app := example(withAllChildren, func(app *v1alpha1.App) { app.Spec.Config = nil })
	f := newFixture(t, app, secret("db-credentials"), foreign)
	r := f.Reconcile()
	controllertest.ErrorContains(t, "already exists and belongs to nobody", r.Err)
	want := []string{createService, "create ingresses default/web", updateStatus}
	controllertest.Equal(t, "writes", want, r.Writes)
}

// TestRejectedChildLeavesOtherChildrenApplied rejects each child in turn, and changes the spec of all others.
func TestRejectedChildLeavesOtherChildrenApplied(t *testing.T) {
	all := []string{
		"configmaps", "deployments", "services", "ingresses", "horizontalpodautoscalers", "poddisruptionbudgets",
	}
	for rejected, waiting := range map[string][]string{
		"configmaps": {"deployments"}, "deployments": nil, "services": {"ingresses"}, "ingresses": nil,
		"horizontalpodautoscalers": nil, "poddisruptionbudgets": nil,
	} {
		t.Run(rejected, func(t *testing.T) {
			f := readyFixture(t, withAllChildren)
			f.Change(func(app *v1alpha1.App) { kindtest.MakeComponent(app, "shop", "web") }) // changes all children
			why := apierrors.NewForbidden(schema.GroupResource{Resource: rejected}, "web", errors.New("denied by a policy"))
			f.Journal.FailNext("patch", rejected, why)
			var want []string
			for _, resource := range all {
				name := "web"
				if resource == "configmaps" {
					name = fastConfig
				}
				if !slices.Contains(waiting, resource) {
					want = append(want, "patch "+resource+" default/"+name)
				}
			}
			r := f.Reconcile()
			controllertest.ErrorContains(t, "denied by a policy", r.Err)
			controllertest.Equal(t, "writes", append(want, updateStatus), r.Writes)
		})
	}
}
