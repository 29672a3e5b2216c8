package app

import (
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// adoptable are the labels by which the Deployment and the Service of somebody else select their Pods.
var adoptable = map[string]string{"app": "web"}

// metaOfAdoptable returns the metadata of an object that lets the App of example adopt it.
func metaOfAdoptable() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "default", Name: "web", UID: "theirs", ResourceVersion: "7",
		Annotations: map[string]string{"windlass.dev/adopt": "App/web"},
	}
}

// theirDeployment returns a Deployment of somebody else that differs from the desired one in operator fields alone, and
// in the given changes.
func theirDeployment(app *v1alpha1.App, changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metaOfAdoptable(),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{MatchLabels: adoptable},
			Template: *operatorFields.Without(templateOf(app, nil)),
		},
		Status: rolledOut(3),
	}
	d.Spec.Template.Labels, d.Spec.Template.Annotations = maps.Clone(adoptable), nil
	d.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](12)
	d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue,
	})
	for _, change := range changes {
		change(d)
	}
	return d
}

// theirService returns the Service of somebody else for theirDeployment.
func theirService() *corev1.Service {
	return &corev1.Service{ObjectMeta: metaOfAdoptable(), Spec: corev1.ServiceSpec{
		Selector: adoptable, ClusterIP: "10.0.0.1",
		Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
}

func TestAdoptedDeploymentKeepsSelectorAndPods(t *testing.T) {
	app := example(func(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](3) })
	f := newFixture(t, app, theirDeployment(app), theirService())
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	check := func(grace int64, label string) {
		t.Helper()
		d := f.deployment()
		controllertest.Equal(t, "selector", adoptable, d.Spec.Selector.MatchLabels)
		controllertest.Equal(t, "label of the selector", "web", d.Spec.Template.Labels["app"])
		controllertest.Equal(t, "label of the App", label, d.Spec.Template.Labels[appLabel])
		controllertest.Equal(t, "grace period", grace, *d.Spec.Template.Spec.TerminationGracePeriodSeconds)
		service := kindtest.Get[*corev1.Service](f.Cluster, "default", "web")
		controllertest.Equal(t, "selector of the Service", adoptable, service.Spec.Selector)
		budget := kindtest.Get[*policyv1.PodDisruptionBudget](f.Cluster, "default", "web")
		controllertest.Equal(t, "selector of the budget", adoptable, budget.Spec.Selector.MatchLabels)
		controllertest.Equal(t, "selector in the status", "app=web", f.Object().Status.Selector)
	}
	check(12, "")
	f.Observe()
	r := f.Reconcile()
	controllertest.ErrorContains(t, "", r.Err)
	controllertest.Equal(t, "writes at rest", nil, withoutStatus(r.Writes))
	f.Change(func(app *v1alpha1.App) { app.Spec.Image = "web:2" })
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	check(35, "web")
	controllertest.Equal(t, "mark", "", f.deployment().Annotations[AdoptedAnnotation])
}

// withoutStatus returns the writes to other objects than the App.
func withoutStatus(writes []string) (others []string) {
	for _, write := range writes {
		if write != updateStatus {
			others = append(others, write)
		}
	}
	return others
}

func TestAdoptedDeploymentReplacesPodsThatDiffer(t *testing.T) {
	withShutdown := func(app *v1alpha1.App) {
		app.Spec.Shutdown = &v1alpha1.AppShutdown{GracePeriodSeconds: ptr.To[int64](60)}
	}
	for name, c := range map[string]struct {
		app   func(*v1alpha1.App)
		their func(*appsv1.Deployment)
		keeps bool
	}{
		"the same template": {keeps: true},
		"another label":     {their: func(d *appsv1.Deployment) { d.Spec.Template.Labels["team"] = "shop" }, keeps: true},
		"another image":     {their: func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "web:0" }},
		"a sidecar": {their: func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "proxy"})
		}},
		"another grace period than the App demands": {app: withShutdown},
		"the grace period that the App demands": {app: withShutdown, keeps: true, their: func(d *appsv1.Deployment) {
			d.Spec.Template.Spec = templateOf(example(withShutdown), nil).Spec
		}},
		"another operator field than podTemplate demands": {
			app: withPodTemplate("spec: {terminationGracePeriodSeconds: 60}"),
		},
		"no label that podTemplate demands": {app: withPodTemplate("metadata: {labels: {team: shop}}")},
	} {
		t.Run(name, func(t *testing.T) {
			var changes []func(*v1alpha1.App)
			if c.app != nil {
				changes = append(changes, c.app)
			}
			app := example(changes...)
			their := theirDeployment(app)
			if c.their != nil {
				c.their(their)
			}
			f := newFixture(t, app, their)
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			d := f.deployment()
			controllertest.Equal(t, "keeps its Pods", c.keeps, d.Spec.Template.Annotations[TemplateDigestAnnotation] == "")
			controllertest.Equal(t, "containers", 1, len(d.Spec.Template.Spec.Containers))
			controllertest.Equal(t, "label of the selector", "web", d.Spec.Template.Labels["app"])
		})
	}
}

func TestAdoptedServiceLeadsToPreviousPods(t *testing.T) {
	named := func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "web:0"
	}
	unnamed := func(d *appsv1.Deployment) {
		named(d)
		d.Spec.Template.Spec.Containers[0].Ports = nil
	}
	for name, c := range map[string]struct {
		their *appsv1.Deployment
		want  intstr.IntOrString
	}{
		"that have the name of the port": {theirDeployment(example(), named), intstr.FromString("http")},
		"that lack the name of the port": {theirDeployment(example(), unnamed), intstr.FromInt32(8080)},
	} {
		t.Run(name, func(t *testing.T) {
			c.their.Generation, c.their.Status.ObservedGeneration = 2, 1
			f := newFixture(t, example(), c.their, theirService())
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			service := kindtest.Get[*corev1.Service](f.Cluster, "default", "web")
			controllertest.Equal(t, "target of the port", c.want, service.Spec.Ports[0].TargetPort)
			controllertest.Equal(t, "name of the port", "http", service.Spec.Ports[0].Name)
		})
	}
}
