package app

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// theirBudget returns the PodDisruptionBudget of somebody else for theirDeployment.
func theirBudget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: metaOfAdoptable(), Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: adoptable}, MinAvailable: ptr.To(intstr.FromInt32(1)),
	}}
}

func TestObjectsOfSomebodyElseStayUntilDeploymentServes(t *testing.T) {
	change := func(change func(*appsv1.Deployment)) *appsv1.Deployment { return theirDeployment(example(), change) }
	for name, c := range map[string]struct {
		deployment *appsv1.Deployment
		err        string
	}{
		"the Deployment is new": {err: "to be available. Then the operator adopts Service default/web"},
		"the Deployment is unavailable": {
			deployment: change(func(d *appsv1.Deployment) { d.Status.Conditions = nil }), err: "to be available",
		},
		"the Deployment belongs to nobody": {
			deployment: change(func(d *appsv1.Deployment) { d.Annotations = nil }), err: "belongs to nobody",
		},
		"the selector has expressions": {
			deployment: change(func(d *appsv1.Deployment) {
				d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Exists"}}
			}), err: "its selector has matchExpressions",
		},
		"the selector has an empty label of the operator": {
			deployment: change(func(d *appsv1.Deployment) {
				d.Spec.Selector.MatchLabels = map[string]string{controller.ManagedByLabel: ""}
			}), err: "its selector has the label app.kubernetes.io/managed-by",
		},
		"the selector has a label of the operator": {
			deployment: change(func(d *appsv1.Deployment) {
				d.Spec.Selector.MatchLabels = map[string]string{controller.ManagedByLabel: "Helm"}
			}), err: "its selector has the label app.kubernetes.io/managed-by",
		},
	} {
		t.Run(name, func(t *testing.T) {
			others := []runtime.Object{theirService(), theirBudget()}
			if c.deployment != nil {
				others = append(others, c.deployment)
			}
			f := newFixture(t, example(func(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](2) }), others...)
			controllertest.ErrorContains(t, c.err, f.Reconcile().Err)
			service := kindtest.Get[*corev1.Service](f.Cluster, "default", "web")
			controllertest.Equal(t, "selector of the Service", adoptable, service.Spec.Selector)
			controllertest.Equal(t, "owners of the Service", 0, len(service.OwnerReferences))
			if c.deployment != nil && c.err != "to be available" {
				budget := kindtest.Get[*policyv1.PodDisruptionBudget](f.Cluster, "default", "web")
				controllertest.Equal(t, "selector of the budget", adoptable, budget.Spec.Selector.MatchLabels)
			}
		})
	}
}

func TestAdoptedServiceLosesNoAddress(t *testing.T) {
	for lost, change := range map[string]func(*corev1.ServiceSpec){
		"the type LoadBalancer": func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeLoadBalancer },
		"port 8080/TCP":         func(s *corev1.ServiceSpec) { s.Ports[0].Port = 8080 },
		"port 80/UDP":           func(s *corev1.ServiceSpec) { s.Ports[0].Protocol = corev1.ProtocolUDP },
	} {
		service := theirService()
		change(&service.Spec)
		f := newFixture(t, example(), theirDeployment(example()), service)
		controllertest.ErrorContains(t, "Service default/web would lose "+lost, f.Reconcile().Err)
		controllertest.Equal(t, "Service", service, kindtest.Get[*corev1.Service](f.Cluster, "default", "web"))
	}
}

// TestAdoptedServiceNeverSelectsPodsOfOthers adopts a Service that selects fewer Pods than the Deployment's selector.
func TestAdoptedServiceNeverSelectsPodsOfOthers(t *testing.T) {
	narrow := map[string]string{"app": "web", "tier": "front"}
	their := theirDeployment(example(), func(d *appsv1.Deployment) {
		d.Spec.Template.Labels["tier"], d.Spec.Template.Spec.Containers[0].Image = "front", "web:0"
	})
	service := theirService()
	service.Spec.Selector = narrow
	f := newFixture(t, example(), their, service)
	controllertest.ErrorContains(t, "Service web would not select them: app=web,tier=front", f.Reconcile().Err)
	controllertest.Equal(t, "image", "web:0", f.deployment().Spec.Template.Spec.Containers[0].Image)
	f.Change(withPodTemplate("metadata: {labels: {tier: front}}"))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	selector := func() map[string]string {
		return kindtest.Get[*corev1.Service](f.Cluster, "default", "web").Spec.Selector
	}
	controllertest.Equal(t, "selector during the rollout", narrow, selector())
	f.changeDeployment(func(d *appsv1.Deployment) { d.Status.ObservedGeneration = d.Generation - 1 })
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "selector later in the rollout", narrow, selector())
	f.rollOut()
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	want := map[string]string{"app": "web", appLabel: "web"}
	controllertest.Equal(t, "selector after the rollout", want, selector())
	controllertest.Equal(t, "writes at rest", nil, withoutStatus(f.Reconcile().Writes))
}

// TestServiceIsAdoptedLaterWhenPreviousPodsAreGone checks that no reconcile guesses the ports of the previous Pods.
func TestServiceIsAdoptedLaterWhenPreviousPodsAreGone(t *testing.T) {
	their := theirDeployment(example(), func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "web:0" })
	service := theirService()
	service.Annotations = nil
	f := newFixture(t, example(), their, service)
	controllertest.ErrorContains(t, "Service default/web already exists", f.Reconcile().Err)
	service.Annotations = metaOfAdoptable().Annotations
	f.Store(service)
	f.changeDeployment(func(d *appsv1.Deployment) { d.Status.ObservedGeneration = d.Generation - 1 })
	controllertest.ErrorContains(t, "Then the operator adopts Service default/web", f.Reconcile().Err)
	f.changeDeployment(func(d *appsv1.Deployment) { d.Status.ObservedGeneration = d.Generation })
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
}

func TestAdoptionKeepsReplicasOfAutoscaler(t *testing.T) {
	autoscaler := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "theirs"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
			APIVersion: "apps/v1", Kind: "Deployment", Name: "web",
		}},
	}
	for name, c := range map[string]struct {
		others   []runtime.Object
		replicas int32
	}{
		"an autoscaler of somebody else": {others: []runtime.Object{autoscaler}, replicas: 3},
		"no autoscaler":                  {replicas: 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(), append(c.others, theirDeployment(example()))...)
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			controllertest.Equal(t, "replicas after the adoption", int32(3), *f.deployment().Spec.Replicas)
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			controllertest.Equal(t, "replicas later", c.replicas, *f.deployment().Spec.Replicas)
		})
	}
}

// TestAdoptionOfPreviousDeploymentWaitsForBeforeRollout adopts a Deployment that is in the cache, because a previous
// App of this name made it.
func TestAdoptionOfPreviousDeploymentWaitsForBeforeRollout(t *testing.T) {
	previous := theirDeployment(example(), func(d *appsv1.Deployment) {
		d.Labels = map[string]string{controller.ManagedByLabel: controller.ManagedByWindlass}
	})
	f := newFixture(t, example(func(app *v1alpha1.App) {
		app.Spec.Image, app.Spec.BeforeRollout = "web:2", &v1alpha1.AppBeforeRollout{Command: []string{"migrate"}}
	}), previous)
	writes := f.Reconcile().Writes
	controllertest.Equal(t, "image", "web:1", f.deployment().Spec.Template.Spec.Containers[0].Image)
	if !slices.ContainsFunc(writes, func(w string) bool { return strings.HasPrefix(w, "create pods ") }) {
		t.Errorf("the command does not run: %v", writes)
	}
}

func TestAdoptedDeploymentThatKeepsPodsCanBeRestarted(t *testing.T) {
	const restarted = "kubectl.kubernetes.io/restartedAt"
	app := example()
	f := newFixture(t, app, theirDeployment(app, func(d *appsv1.Deployment) {
		d.Spec.Template.Annotations = map[string]string{restarted: "morning"}
	}))
	for range 2 {
		controllertest.ErrorContains(t, "", f.Reconcile().Err)
	}
	f.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Annotations[restarted] = "noon" })
	for range 2 {
		controllertest.ErrorContains(t, "", f.Reconcile().Err)
	}
	d := f.deployment()
	controllertest.Equal(t, "time of the restart", "noon", d.Spec.Template.Annotations[restarted])
	controllertest.Equal(t, "grace period", int64(12), *d.Spec.Template.Spec.TerminationGracePeriodSeconds)
	f.changeDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "theirs:1" })
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "image", "web:1", f.deployment().Spec.Template.Spec.Containers[0].Image)
}

// TestForgedAdoptionDoesNotChangeTemplate writes the annotations of an adopted Deployment, as a user may.
func TestForgedAdoptionDoesNotChangeTemplate(t *testing.T) {
	f := readyFixture(t)
	desired := f.deployment().Spec.Template
	f.changeDeployment(func(d *appsv1.Deployment) {
		forged := d.DeepCopy()
		forged.Annotations = nil
		forged.Spec.Template.Spec.Containers[0].Image = "forged:1"
		mark := adoptedMark(&desired, &forged.Spec.Template)
		d.Annotations = recorded(t, forged).Annotations
		d.Annotations[AdoptedAnnotation] = mark
	})
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "image", "web:1", f.deployment().Spec.Template.Spec.Containers[0].Image)
}

// TestAdoptedDeploymentOfPreviousAppKeepsPodsWithSameInputs adopts a Deployment that was orphaned.
func TestAdoptedDeploymentOfPreviousAppKeepsPodsWithSameInputs(t *testing.T) {
	for name, c := range map[string]struct {
		data  string
		keeps bool
	}{
		"the Secret is the same": {data: "canary", keeps: true},
		"the Secret has changed": {data: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			d := readyFixture(t, withDatabase).deployment()
			d.OwnerReferences, d.UID, d.ResourceVersion = nil, "orphan", "7"
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, "windlass.dev/adopt", "App/web")
			next := example(withDatabase, func(app *v1alpha1.App) { app.UID = "next" })
			credentials := secret("db-credentials")
			credentials.Data["uri"] = []byte(c.data)
			f := newFixture(t, next, credentials, d)
			for range 3 {
				controllertest.ErrorContains(t, "", f.Reconcile().Err)
			}
			is := cmp.Equal(d.Spec.Template, f.deployment().Spec.Template)
			controllertest.Equal(t, "the template is the same", c.keeps, is)
		})
	}
}

// TestAdoptionThatKeepsPodsNeedsLabelsOfService checks the labels before a later change of the App replaces the Pods.
func TestAdoptionThatKeepsPodsNeedsLabelsOfService(t *testing.T) {
	their := theirDeployment(example(), func(d *appsv1.Deployment) { d.Spec.Template.Labels["tier"] = "front" })
	service := theirService()
	service.Spec.Selector = map[string]string{"app": "web", "tier": "front"}
	f := newFixture(t, example(), their, service)
	controllertest.ErrorContains(t, "Service web would not select them", f.Reconcile().Err)
	f.Change(withPodTemplate("metadata: {labels: {tier: front}}"))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "grace period", int64(12), *f.deployment().Spec.Template.Spec.TerminationGracePeriodSeconds)
}

func TestBeforeRolloutDoesNotRunForPodsThatWereKept(t *testing.T) {
	f := newFixture(t, example(), theirDeployment(example()))
	for range 2 {
		controllertest.ErrorContains(t, "", f.Reconcile().Err)
	}
	f.Change(func(app *v1alpha1.App) {
		app.Spec.BeforeRollout = &v1alpha1.AppBeforeRollout{Command: []string{"migrate"}}
		app.Spec.Replicas = ptr.To[int32](7)
	})
	for range 2 {
		r := f.Reconcile()
		controllertest.ErrorContains(t, "", r.Err)
		if slices.ContainsFunc(r.Writes, func(w string) bool { return strings.HasPrefix(w, "create pods ") }) {
			t.Errorf("the command runs: %v", r.Writes)
		}
	}
	controllertest.Equal(t, "replicas", int32(7), *f.deployment().Spec.Replicas)
	controllertest.Equal(t, "grace period", int64(12), *f.deployment().Spec.Template.Spec.TerminationGracePeriodSeconds)
	f.Change(func(app *v1alpha1.App) { app.Spec.Image, app.Spec.Replicas = "web:2", ptr.To[int32](5) })
	for range 2 {
		f.Reconcile()
	}
	controllertest.Equal(t, "replicas while the command runs", int32(5), *f.deployment().Spec.Replicas)
	controllertest.Equal(t, "image", "web:1", f.deployment().Spec.Template.Spec.Containers[0].Image)
}
