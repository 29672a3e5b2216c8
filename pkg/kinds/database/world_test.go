package database

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/controller/controllertest"
	windlassfake "windlass.dev/windlass/pkg/generated/clientset/versioned/fake"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// example returns a Database with the defaults of the schema, after some changes.
func example(changes ...func(*v1alpha1.Database)) *v1alpha1.Database {
	db := &v1alpha1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop", UID: "database-uid", ResourceVersion: "1", Generation: 1, Finalizers: []string{finalizerName}},
		Spec: v1alpha1.DatabaseSpec{
			Version: "17", Storage: v1alpha1.DatabaseStorage{Size: resource.MustParse("1Gi")},
			DatabaseName: "app", Owner: "app", DeletionPolicy: v1alpha1.DeletionRetain,
		},
	}
	for _, change := range changes {
		change(db)
	}
	return db
}

// world has fake servers with a Database, and with objects of others.
type world struct {
	t        testing.TB
	kube     *kubefake.Clientset
	windlass *windlassfake.Clientset
	cluster  kinds.Cluster
	journal  *controllertest.Journal
	events   *controllertest.Recorder
	created  int
}

func newWorld(t testing.TB, db *v1alpha1.Database, others ...runtime.Object) *world {
	t.Helper()
	w := &world{
		t: t, kube: kubefake.NewClientset(others...), windlass: windlassfake.NewSimpleClientset(db), events: &controllertest.Recorder{},
	}
	w.kube.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		w.created++
		object := action.(clienttesting.CreateAction).GetObject().(metav1.Object)
		object.SetUID(types.UID(action.GetResource().Resource + "-" + string(rune('0'+w.created))))
		return false, nil, nil
	})
	w.journal = controllertest.NewJournal(w.kube, w.windlass)
	w.forget()
	return w
}

// forget empties the caches.
func (w *world) forget() {
	w.cluster = kinds.Cluster{
		Cluster:  cluster.Cluster{Kube: w.kube, Owned: informers.NewSharedInformerFactory(w.kube, 0)},
		Windlass: w.windlass, Own: externalversions.NewSharedInformerFactory(w.windlass, 0),
	}
}

// pass reconciles the Database once, with caches that hold the objects of the servers.
func (w *world) pass() (controller.Result, error) {
	w.t.Helper()
	w.forget()
	return w.fill().Sync(w.t.Context(), controller.Key{Namespace: "default", Name: "shop"})
}

// fill fills the caches with the objects of the servers, and returns a pipeline that reads them.
func (w *world) fill() *controller.Pipeline[*v1alpha1.Database] {
	w.t.Helper()
	kind, err := declare(w.cluster, w.runtime(), Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	controllertest.Load(w.t, kind.Informer.GetStore(), w.db())
	core, opts := w.kube.CoreV1(), metav1.ListOptions{LabelSelector: controller.ManagedByLabel + "=" + controller.ManagedByWindlass}
	secrets, err1 := core.Secrets("default").List(w.t.Context(), opts)
	services, err2 := core.Services("default").List(w.t.Context(), opts)
	claims, err3 := core.PersistentVolumeClaims("default").List(w.t.Context(), opts)
	running, err4 := core.Pods("default").List(w.t.Context(), opts)
	sets, err5 := w.kube.AppsV1().StatefulSets("default").List(w.t.Context(), opts)
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	informers := w.cluster.Owned.Core().V1()
	w.load(informers.Secrets().Informer().GetStore(), secrets)
	w.load(informers.Services().Informer().GetStore(), services)
	w.load(informers.PersistentVolumeClaims().Informer().GetStore(), claims)
	w.load(informers.Pods().Informer().GetStore(), running)
	w.load(w.cluster.Owned.Apps().V1().StatefulSets().Informer().GetStore(), sets)
	return kind.Pipeline(w.runtime())
}

// runtime returns the runtime of the controller of Database.
func (w *world) runtime() controller.Runtime {
	return controller.Runtime{Events: w.events, Clock: clocktesting.NewFakeClock(time.Now())}
}

func (w *world) load(store cache.Store, list runtime.Object) {
	w.t.Helper()
	err := meta.EachListItem(list, func(object runtime.Object) error {
		trimmed, err := pods.Trim(object)
		controllertest.Load(w.t, store, trimmed.(runtime.Object))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// db returns the Database on the server.
func (w *world) db() *v1alpha1.Database {
	w.t.Helper()
	db, err := w.windlass.WindlassV1alpha1().Databases("default").Get(w.t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return db
}

// change changes the Database as a user does.
func (w *world) change(change func(*v1alpha1.Database)) {
	w.t.Helper()
	db := w.db()
	db.Generation++
	change(db)
	if err := w.windlass.Tracker().Update(v1alpha1.SchemeGroupVersion.WithResource("databases"), db, "default"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	s, err := w.kube.CoreV1().Secrets("default").Get(w.t.Context(), "shop-credentials", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) claim() *corev1.PersistentVolumeClaim {
	w.t.Helper()
	c, err := w.kube.CoreV1().PersistentVolumeClaims("default").Get(w.t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) statefulSet() *appsv1.StatefulSet {
	w.t.Helper()
	s, err := w.kube.AppsV1().StatefulSets("default").Get(w.t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// update changes an object of a built-in type on the server.
func (w *world) update(resource string, object metav1.Object) {
	w.t.Helper()
	gvr := corev1.SchemeGroupVersion.WithResource(resource)
	if resource == "statefulsets" {
		gvr = appsv1.SchemeGroupVersion.WithResource(resource)
	}
	if err := w.kube.Tracker().Update(gvr, object.(runtime.Object), "default"); err != nil {
		w.t.Fatal(err)
	}
}

// comeUp sets the status of the StatefulSet and of the claim to that of a running server.
func (w *world) comeUp() {
	w.t.Helper()
	s, claim := w.statefulSet(), w.claim()
	s.Status = appsv1.StatefulSetStatus{ObservedGeneration: s.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1}
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: claim.Spec.Resources.Requests.DeepCopy()}
	claim.Spec.StorageClassName = ptr.To(ptr.Deref(claim.Spec.StorageClassName, "standard"))
	w.update("statefulsets", s)
	w.update("persistentvolumeclaims", claim)
}

// up returns a world whose Database is Ready.
func up(t testing.TB, changes ...func(*v1alpha1.Database)) *world {
	t.Helper()
	w := newWorld(t, example(changes...))
	for range 2 {
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		w.comeUp()
	}
	controllertest.Equal(t, "phase", v1alpha1.DatabaseReady, w.db().Status.Phase)
	return w
}
