package app

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/controller/controllertest"
	windlassfake "windlass.dev/windlass/pkg/generated/clientset/versioned/fake"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
	"windlass.dev/windlass/pkg/kinds"
)

// example returns an App with the defaults of the schema, after some changes.
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

// world has fake servers with an App, and with Secrets and ConfigMaps of users.
type world struct {
	t        testing.TB
	kube     *kubefake.Clientset
	windlass *windlassfake.Clientset
	metadata *fake.FakeMetadataClient
	cluster  kinds.Cluster
	journal  *controllertest.Journal
	events   *controllertest.Recorder
}

func newWorld(t testing.TB, app *v1alpha1.App, users ...runtime.Object) *world {
	t.Helper()
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var known []runtime.Object
	for _, object := range users {
		known = append(known, metadataOf(object))
	}
	w := &world{
		t: t, kube: kubefake.NewClientset(users...), windlass: windlassfake.NewSimpleClientset(app),
		metadata: fake.NewSimpleMetadataClient(scheme, known...), events: &controllertest.Recorder{},
	}
	w.journal = controllertest.NewJournal(w.kube, w.windlass)
	w.renew()
	return w
}

// renew replaces the caches by empty ones.
func (w *world) renew() {
	w.cluster = kinds.Cluster{
		Cluster:  cluster.Cluster{Kube: w.kube, Owned: informers.NewSharedInformerFactory(w.kube, 0), Others: metadatainformer.NewSharedInformerFactory(w.metadata, 0)},
		Windlass: w.windlass, Own: externalversions.NewSharedInformerFactory(w.windlass, 0),
	}
}

// runtime returns the runtime of the controller of App.
func (w *world) runtime() controller.Runtime {
	return controller.Runtime{Events: w.events, Clock: clocktesting.NewFakeClock(time.Now())}
}

// pass reconciles the App once, with caches that hold the objects of the servers.
func (w *world) pass() (controller.Result, error) {
	w.t.Helper()
	return w.fill().Sync(w.t.Context(), controller.Key{Namespace: "default", Name: "web"})
}

// fill fills new caches with the objects of the servers, and returns a pipeline that reads them.
func (w *world) fill() *controller.Pipeline[*v1alpha1.App] {
	w.t.Helper()
	w.renew()
	kind, err := declare(w.cluster)
	if err != nil {
		w.t.Fatal(err)
	}
	w.load()
	return kind.Pipeline(w.runtime())
}

// load puts the objects of the servers into the caches.
func (w *world) load() {
	w.t.Helper()
	controllertest.Load(w.t, w.cluster.Own.Windlass().V1alpha1().Apps().Informer().GetStore(), w.app())
	load(w, w.cluster.ConfigMaps())
	load(w, w.cluster.Deployments())
	load(w, w.cluster.Services())
	load(w, w.cluster.Ingresses())
	load(w, w.cluster.HorizontalPodAutoscalers())
	load(w, w.cluster.PodDisruptionBudgets())
	own := w.cluster.Secrets().Informer
	for _, s := range w.secrets() {
		if s.Labels[controller.ManagedByLabel] == controller.ManagedByWindlass {
			controllertest.Load(w.t, own.GetStore(), &s)
		} else {
			controllertest.Load(w.t, w.others().GetStore(), metadataOf(&s))
		}
	}
}

// load puts the App's child of a type into the cache, if the server has it.
func load[T children.Object](w *world, all children.Resource[T]) {
	w.t.Helper()
	if child, err := all.Client("default").Get(w.t.Context(), "web", metav1.GetOptions{}); err == nil {
		controllertest.Load(w.t, all.Informer.GetStore(), child)
	}
}

// others returns the informer of Secrets that the operator did not create.
func (w *world) others() cache.SharedIndexInformer {
	return w.cluster.Others.ForResource(corev1.SchemeGroupVersion.WithResource("secrets")).Informer()
}

// secrets returns the Secrets on the server.
func (w *world) secrets() []corev1.Secret {
	w.t.Helper()
	list, err := w.kube.CoreV1().Secrets("default").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

func (w *world) deployment() *appsv1.Deployment {
	w.t.Helper()
	d, err := w.kube.AppsV1().Deployments("default").Get(w.t.Context(), "web", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func metadataOf(object runtime.Object) runtime.Object {
	accessor := object.(metav1.Object)
	kind := kindSecret
	if _, ok := object.(*corev1.ConfigMap); ok {
		kind = kindConfigMap
	}
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: accessor.GetNamespace(), Name: accessor.GetName(), UID: accessor.GetUID(), ResourceVersion: accessor.GetResourceVersion()},
	}
}

// app returns the App on the server.
func (w *world) app() *v1alpha1.App {
	w.t.Helper()
	app, err := w.windlass.WindlassV1alpha1().Apps("default").Get(w.t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return app
}

// rolledOutOf returns the status of a Deployment whose n Pods are rolled out.
func rolledOutOf(n int32) appsv1.DeploymentStatus {
	return appsv1.DeploymentStatus{
		Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"}},
	}
}

// rollOut sets the status of the Deployment to that after a complete rollout.
func (w *world) rollOut() {
	w.t.Helper()
	d := w.deployment()
	d.Status = rolledOutOf(*d.Spec.Replicas)
	if _, err := w.kube.AppsV1().Deployments("default").UpdateStatus(w.t.Context(), d, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "5"}, Data: map[string][]byte{"uri": []byte("canary")}}
}
