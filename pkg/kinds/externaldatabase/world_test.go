package externaldatabase

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/controller/controllertest"
	windlassfake "windlass.dev/windlass/pkg/generated/clientset/versioned/fake"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/postgresql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// example returns an ExternalDatabase with the defaults of the schema, after some changes.
func example(changes ...func(*v1alpha1.ExternalDatabase)) *v1alpha1.ExternalDatabase {
	db := &v1alpha1.ExternalDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop", UID: "shop-uid", ResourceVersion: "1", Generation: 1, Finalizers: []string{finalizerName}},
		Spec: v1alpha1.ExternalDatabaseSpec{
			ConnectionSecretRef: v1alpha1.SecretReference{Name: "server"}, DatabaseName: "orders", Owner: "clerk",
			Extensions: []v1alpha1.ExtensionName{"citext"}, DeletionPolicy: v1alpha1.DeletionDelete,
		},
	}
	for _, change := range changes {
		change(db)
	}
	return db
}

// bound changes an ExternalDatabase to one whose Secret was created.
func bound(db *v1alpha1.ExternalDatabase) {
	db.Status.Binding = &v1alpha1.SecretBinding{Name: "shop-credentials"}
}

func deleted(db *v1alpha1.ExternalDatabase) { db.DeletionTimestamp = &metav1.Time{Time: time.Now()} }

// known changes an ExternalDatabase to one whose database was created.
func known(db *v1alpha1.ExternalDatabase) {
	db.Status.ExternalID, db.Status.Binding = "1/2", &v1alpha1.SecretBinding{Name: "shop-credentials"}
}

// recreated adds the annotation with which a user requests a new database in place of id.
func recreated(id string) func(*v1alpha1.ExternalDatabase) {
	return func(db *v1alpha1.ExternalDatabase) {
		db.Annotations = map[string]string{"windlass.dev/recreate": id}
	}
}

func retained(db *v1alpha1.ExternalDatabase) { db.Spec.DeletionPolicy = v1alpha1.DeletionRetain }

// connectionSecret returns the connection Secret, after some changes.
func connectionSecret(changes ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "server", UID: "server-uid", ResourceVersion: "7"},
		Data:       map[string][]byte{"host": []byte("db.example.com"), "username": []byte("admin"), "password": []byte("secret")},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

// fakeServer returns the given results, and records its calls.
type fakeServer struct {
	found                       postgresql.Found
	exists, create, update, del error

	meanwhile func() // if set, is called by Exists
	asked     []string
	want      postgresql.Want
	admin     postgresql.Settings
}

func (f *fakeServer) note(what string, want postgresql.Want) {
	f.asked, f.want = append(f.asked, what), want
}

func (f *fakeServer) Exists(_ context.Context, want postgresql.Want) (postgresql.Found, error) {
	f.note("exists", want)
	if f.meanwhile != nil {
		f.meanwhile()
	}
	return f.found, f.exists
}

func (f *fakeServer) Create(_ context.Context, want postgresql.Want) (postgresql.ID, error) {
	f.note("create", want)
	return "1/2", f.create
}

func (f *fakeServer) Update(_ context.Context, want postgresql.Want) error {
	f.note("update", want)
	return f.update
}

func (f *fakeServer) Delete(_ context.Context, want postgresql.Want) error {
	f.note("delete", want)
	return f.del
}

func (f *fakeServer) Close() { f.asked = append(f.asked, "close") }

// world has fake servers of Kubernetes and of PostgreSQL.
type world struct {
	t        *testing.T
	kube     *kubefake.Clientset
	windlass *windlassfake.Clientset
	pipeline *controller.Pipeline[*v1alpha1.ExternalDatabase]
	cluster  kinds.Cluster
	// forgetful is the event handler that forgets connection Secrets.
	forgetful cache.ResourceEventHandler
	others    cache.Store // Secrets that the operator did not create
	journal   *controllertest.Journal
	events    *controllertest.Recorder
	server    *fakeServer
}

// newWorld returns a world with an ExternalDatabase and Secrets, which are also in the caches.
func newWorld(t *testing.T, outside *fakeServer, db *v1alpha1.ExternalDatabase, secrets ...*corev1.Secret) *world {
	t.Helper()
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := make([]runtime.Object, len(secrets))
	for i, s := range secrets {
		objects[i] = s
	}
	w := &world{
		t: t, kube: kubefake.NewClientset(objects...), windlass: windlassfake.NewSimpleClientset(db), events: &controllertest.Recorder{}, server: outside,
	}
	w.journal = controllertest.NewJournal(w.kube, w.windlass)
	w.cluster = kinds.Cluster{
		Cluster:  cluster.Cluster{Kube: w.kube, Owned: informers.NewSharedInformerFactory(w.kube, 0), Others: metadatainformer.NewSharedInformerFactory(fake.NewSimpleMetadataClient(scheme), 0)},
		Windlass: w.windlass, Own: externalversions.NewSharedInformerFactory(w.windlass, 0),
	}
	open := func(_ string, admin postgresql.Settings) server {
		outside.admin = admin
		return outside
	}
	kind, forgetful, err := declare(w.cluster, open)
	if err != nil {
		t.Fatal(err)
	}
	w.others = w.cluster.Others.ForResource(corev1.SchemeGroupVersion.WithResource("secrets")).Informer().GetStore()
	w.forgetful = forgetful
	w.pipeline = kind.Pipeline(controller.Runtime{Events: w.events, Clock: clocktesting.NewFakeClock(time.Now())})
	w.fill()
	return w
}

// fill fills the caches with the objects of the servers.
func (w *world) fill() {
	w.t.Helper()
	controllertest.Load(w.t, w.cluster.Own.Windlass().V1alpha1().ExternalDatabases().Informer().GetStore(), w.db())
	list, err := w.kube.CoreV1().Secrets("default").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	own := w.cluster.Secrets().Informer.GetStore()
	for _, s := range list.Items {
		if s.Labels[controller.ManagedByLabel] == controller.ManagedByWindlass {
			controllertest.Load(w.t, own, &s)
		} else {
			controllertest.Load(w.t, w.others, &metav1.PartialObjectMetadata{ObjectMeta: s.ObjectMeta})
		}
	}
}

// pass reconciles once, with caches that hold the objects of the servers.
func (w *world) pass() (controller.Result, error) {
	w.t.Helper()
	w.fill()
	w.server.asked = nil
	return w.pipeline.Sync(w.t.Context(), controller.Key{Namespace: "default", Name: "shop"})
}

// db returns the ExternalDatabase on the server.
func (w *world) db() *v1alpha1.ExternalDatabase {
	w.t.Helper()
	db, err := w.windlass.WindlassV1alpha1().ExternalDatabases("default").Get(context.Background(), "shop", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return db
}

// secret returns the owner's Secret, or nil.
func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	s, err := w.kube.CoreV1().Secrets("default").Get(context.Background(), "shop-credentials", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// reads returns the names of the Secrets that were read from the server, also by this test.
func (w *world) reads() (names []string) {
	for _, action := range w.kube.Actions() {
		if get, ok := action.(interface{ GetName() string }); ok && action.GetVerb() == "get" {
			names = append(names, get.GetName())
		}
	}
	return names
}

func ready(db *v1alpha1.ExternalDatabase) *metav1.Condition {
	return meta.FindStatusCondition(db.Status.Conditions, "Ready")
}

func (w *world) connections() *connections {
	return w.pipeline.Reconciler.(*reconciler).connections
}
