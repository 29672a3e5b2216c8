package app

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

const (
	createDeployment = "create deployments default/web"
	createService    = "create services default/web"
	updateStatus     = "update apps/status default/web"
)

// example returns an App with the defaults of the schema, after the given changes.
func example(changes ...func(*v1alpha1.App)) *v1alpha1.App {
	app := &v1alpha1.App{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "app-uid", ResourceVersion: "1", Generation: 1},
		Spec:       v1alpha1.AppSpec{Image: "web:1", Replicas: ptr.To[int32](1), Port: 8080},
	}
	for _, change := range changes {
		change(app)
	}
	return app
}

// withDatabase adds a reference to the Database db.
func withDatabase(app *v1alpha1.App) {
	app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "db"}
}

// fastConfig is the name of the ConfigMap of an App that withAllChildren has changed.
var fastConfig = configName(example(withAllChildren))

// withFiles returns a change after which an App has a file with this text.
func withFiles(text string) func(*v1alpha1.App) {
	return func(app *v1alpha1.App) { app.Spec.Config = map[string]string{"a.conf": text} }
}

// files returns the stored ConfigMap with this text of a file, or nil.
func (f fixture) files(text string) *corev1.ConfigMap {
	return kindtest.Get[*corev1.ConfigMap](f.Cluster, "default", configName(example(withFiles(text))))
}

// mounted returns the name of the ConfigMap that the template of the stored Deployment mounts.
func (f fixture) mounted() string { return f.deployment().Spec.Template.Spec.Volumes[0].ConfigMap.Name }

// withAllChildren changes an App so that it has all children, and refers to the Database db.
func withAllChildren(app *v1alpha1.App) {
	withDatabase(app)
	app.Spec.Config = map[string]string{"mode": "fast"}
	app.Spec.Ingress = &v1alpha1.AppIngress{Host: "a.example.com", Path: "/"}
	app.Spec.Autoscaling = &v1alpha1.AppAutoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 3}
}

// secret returns a Secret with the given name, as a user creates it.
func secret(name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "5",
		}, Data: map[string][]byte{"uri": []byte("canary")},
	}
}

// managed returns a Secret with the given name and the label managed-by, as the operator creates it.
func managed(name string) *corev1.Secret {
	s := secret(name)
	s.Labels = map[string]string{controller.ManagedByLabel: controller.ManagedByWindlass}
	return s
}

// fixture reconciles an App on fake clientsets.
type fixture struct {
	*kindtest.Fixture[*v1alpha1.App]
	// unsynced reports whether the caches of Databases and ExternalDatabases have not synced.
	unsynced *bool
}

func newFixture(t testing.TB, app *v1alpha1.App, others ...runtime.Object) fixture {
	t.Helper()
	unsynced := new(bool)
	declared := func(c kinds.Cluster, r controller.Runtime) (controller.Kind[*v1alpha1.App], error) {
		return declare(c, r, func(cache.SharedIndexInformer) bool { return !*unsynced })
	}
	return fixture{kindtest.New(t, declared, app, others...), unsynced}
}

// readyFixture returns a fixture whose App, with the given changes, is Ready. The caches hold all stored
// objects.
func readyFixture(t testing.TB, changes ...func(*v1alpha1.App)) fixture {
	t.Helper()
	f := newFixture(t, example(changes...), secret("db-credentials"))
	for range 3 {
		controllertest.ErrorContains(t, "", f.Reconcile().Err)
		f.rollOut()
	}
	f.Observe()
	return f
}

// deployment returns the stored Deployment, or nil.
func (f fixture) deployment() *appsv1.Deployment {
	return kindtest.Get[*appsv1.Deployment](f.Cluster, "default", "web")
}

func (f fixture) changeDeployment(change func(*appsv1.Deployment)) {
	kindtest.Change(f.Cluster, "default", "web", change)
}

// rollOut sets the status that the Deployment has after a complete rollout.
func (f fixture) rollOut() {
	f.changeDeployment(func(d *appsv1.Deployment) {
		d.Status = rolledOut(*d.Spec.Replicas)
		d.Status.ObservedGeneration = d.Generation
	})
}

// rolledOut returns the status of a Deployment with the given number of replicas after a complete rollout.
func rolledOut(replicas int32) appsv1.DeploymentStatus {
	return appsv1.DeploymentStatus{
		Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}
}

// secretReads returns the number of requests that read Secrets.
func (f fixture) secretReads() int { return controllertest.Reads(f.Kube.Actions(), "secrets") }

// templateOf returns the desired Pod template of an App with a valid podTemplate.
func templateOf(app *v1alpha1.App, used contents) *corev1.PodTemplateSpec {
	template, _ := desiredTemplate(app)
	setDigests(app, template, used)
	return template
}

// deploymentWith returns the desired Deployment of an App.
func deploymentWith(app *v1alpha1.App, used contents) *appsv1.Deployment {
	return desiredDeployment(app, templateOf(app, used), used)
}

// runPodOf returns the Pod that runs beforeRollout.
func runPodOf(app *v1alpha1.App, wanted runID) *corev1.Pod {
	return desiredRunPod(app, templateOf(app, nil), wanted)
}
