package app

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// selectors returns the selectors of the Service and the PodDisruptionBudget.
func (f fixture) selectors() []map[string]string {
	service := kindtest.Get[*corev1.Service](f.Cluster, "default", "web")
	budget := kindtest.Get[*policyv1.PodDisruptionBudget](f.Cluster, "default", "web")
	return []map[string]string{service.Spec.Selector, budget.Spec.Selector.MatchLabels}
}

// removeLabel removes appLabel from the Pod template, as kubectl rollout undo does.
func removeLabel(d *appsv1.Deployment) { delete(d.Spec.Template.Labels, appLabel) }

func twoReplicas(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](2) }

func TestSelectorsLoseLabelEvenIfAWriteFails(t *testing.T) {
	for _, resource := range []string{"services", "poddisruptionbudgets"} {
		t.Run(resource, func(t *testing.T) {
			f := readyFixture(t, twoReplicas)
			broad, narrow := selectorOf(f.Object()), narrowSelector(f.Object())
			controllertest.Equal(t, "selectors while all Pods have the label", []map[string]string{narrow, narrow}, f.selectors())

			f.changeDeployment(removeLabel)
			f.Journal.FailNext("patch", resource, apierrors.NewConflict(schema.GroupResource{Resource: resource}, "web", errors.New("its status has changed")))
			if r := f.Reconcile(); r.Err == nil {
				t.Error("the failed write is no error")
			}
			f.Reconcile()
			controllertest.Equal(t, "selectors while Pods may lack the label", []map[string]string{broad, broad}, f.selectors())
			controllertest.Equal(t, "label of the template", "web", f.deployment().Spec.Template.Labels[appLabel])

			f.rollOut()
			f.Reconcile()
			controllertest.Equal(t, "selectors after the rollout", []map[string]string{narrow, narrow}, f.selectors())
		})
	}
}

// TestSelectorsLoseLabelDuringReconcile removes the label while a reconcile reads a Secret.
func TestSelectorsLoseLabelDuringReconcile(t *testing.T) {
	f := readyFixture(t, twoReplicas, withDatabase)
	f.changeDeployment(func(d *appsv1.Deployment) { d.Annotations[inputsAnnotation] = "" })
	f.Restart() // so that the Secret is read again
	f.Observe()
	f.Kube.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		f.changeDeployment(removeLabel)
		controllertest.Load(t, f.Deployments().Informer.GetStore(), f.deployment())
		return false, nil, nil
	})
	if r := f.ReconcileAsCached(); r.Err != nil {
		t.Fatal(r.Err)
	}
	broad := selectorOf(f.Object())
	controllertest.Equal(t, "selectors", []map[string]string{broad, broad}, f.selectors())
	controllertest.Equal(t, "label of the template", "web", f.deployment().Spec.Template.Labels[appLabel])
}

// TestRefusedChildDoesNotKeepDeploymentWithoutLabel covers children whose selectors include Pods without the label.
func TestRefusedChildDoesNotKeepDeploymentWithoutLabel(t *testing.T) {
	for _, resource := range []string{"services", "ingresses", "poddisruptionbudgets"} {
		t.Run(resource, func(t *testing.T) {
			f := readyFixture(t, twoReplicas, func(app *v1alpha1.App) {
				app.Spec.Ingress = &v1alpha1.AppIngress{Host: "a.example.com", Path: "/"}
			})
			f.changeDeployment(removeLabel)
			kindtest.Change(f.Cluster, "default", "web", func(s *corev1.Service) { s.Spec.Selector = selectorOf(f.Object()) })
			kindtest.Change(f.Cluster, "default", "web", func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels = selectorOf(f.Object()) })
			f.Change(func(app *v1alpha1.App) {
				kindtest.MakeComponent(app, "shop", "web") // changes all children
				app.Spec.Image = "web:2"
			})
			f.Journal.FailNext("patch", resource, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "web", errors.New("a policy refuses it")))
			controllertest.ErrorContains(t, "a policy refuses it", f.Reconcile().Err)
			controllertest.Equal(t, "image", "web:2", f.deployment().Spec.Template.Spec.Containers[0].Image)
		})
	}
}

// TestForeignDeploymentKeepsOtherChildrenFromBeingCreated checks that no Service selects the Pods of a foreign Deployment,
// and that no autoscaler scales it.
func TestForeignDeploymentKeepsOtherChildrenFromBeingCreated(t *testing.T) {
	foreign := desiredDeployment(example(), nil)
	foreign.Namespace, foreign.Name, foreign.UID, foreign.ResourceVersion = "default", "web", "foreign", "7"
	foreign.Labels[controller.ManagedByLabel] = controller.ManagedByWindlass // so that it is in the cache
	removeLabel(foreign)
	f := newFixture(t, example(withAllChildren, func(app *v1alpha1.App) { app.Spec.Config = nil }), secret("db-credentials"), foreign)
	r := f.Reconcile()
	controllertest.ErrorContains(t, "already exists and belongs to nobody", r.Err)
	controllertest.Equal(t, "writes", []string{updateStatus}, r.Writes)
}

// TestConfigMapIsDeletedAfterDeploymentNoLongerMountsIt removes the files from a Ready App.
func TestConfigMapIsDeletedAfterDeploymentNoLongerMountsIt(t *testing.T) {
	f := readyFixture(t, func(app *v1alpha1.App) { app.Spec.Config = map[string]string{"mode": "fast"} })
	f.Change(func(app *v1alpha1.App) { app.Spec.Config = nil })
	r := f.Reconcile()
	controllertest.Equal(t, "writes", []string{"patch deployments default/web", "delete configmaps default/web", updateStatus}, r.Writes)
}

func TestPodSelectorUsesLabelOnlyOnceAllPodsHaveIt(t *testing.T) {
	app := example()
	broad, narrow := selectorOf(app), narrowSelector(app)
	later := func(generation int64, status appsv1.DeploymentStatus) *appsv1.Deployment {
		d := desiredDeployment(app, nil)
		d.Generation, d.Status = generation, status
		return d
	}
	rolledOutTo := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 9, UpdatedReplicas: 9, AvailableReplicas: 9}
	halfWay := rolledOutTo
	halfWay.UpdatedReplicas = 1
	for name, c := range map[string]struct {
		d         *appsv1.Deployment
		now, want map[string]string
	}{
		"there is no Deployment":                        {want: broad},
		"the template is of an earlier version":         {d: byAnEarlierVersion(t, app), now: broad, want: broad},
		"the template has always had the label":         {d: later(1, appsv1.DeploymentStatus{}), want: narrow},
		"the template has just got the label":           {d: later(2, appsv1.DeploymentStatus{ObservedGeneration: 1}), now: broad, want: broad},
		"some Pods have the label":                      {d: later(2, halfWay), now: broad, want: broad},
		"all Pods have the label":                       {d: later(2, rolledOutTo), now: broad, want: narrow},
		"the next rollout has begun":                    {d: later(3, rolledOutTo), now: narrow, want: narrow},
		"the Deployment was orphaned and created again": {d: later(1, appsv1.DeploymentStatus{}), now: broad, want: broad},
		"a user has paused the Deployment before a Pod has the label": {
			d: withoutRollouts(later(2, appsv1.DeploymentStatus{ObservedGeneration: 2})), now: broad, want: broad,
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Equal(t, "selector", c.want, podSelector(app, c.d, c.now))
		})
	}
}
