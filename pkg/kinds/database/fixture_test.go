package database

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

const (
	createCertificate = "create secrets default/shop-certificate"
	createSecret      = "create secrets default/shop-credentials"
	createSettings    = "create secrets default/shop-settings"
	createService     = "create services default/shop"
	createClaim       = "create persistentvolumeclaims default/shop"
	createStatefulSet = "create statefulsets default/shop"
	patchSecret       = "patch secrets default/shop-credentials"
	patchSettings     = "patch secrets default/shop-settings"
	patchClaim        = "patch persistentvolumeclaims default/shop"
	patchStatefulSet  = "patch statefulsets default/shop"
	deleteClaim       = "delete persistentvolumeclaims default/shop"
	patchDatabase     = "patch databases default/shop" // a change of the finalizers
	updateStatus      = "update databases/status default/shop"
)

// claimProtection is the finalizer that keeps a claim until no Pod uses it.
const claimProtection = "kubernetes.io/pvc-protection"

// example returns a Database with the defaults of the schema, after the given changes.
func example(changes ...func(*v1alpha1.Database)) *v1alpha1.Database {
	db := &v1alpha1.Database{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "shop", UID: "database-uid", ResourceVersion: "1", Generation: 1,
			Finalizers: []string{finalizerName},
		},
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

// withUID returns a change that sets the UID, as of another Database with the same name.
func withUID(uid types.UID) func(*v1alpha1.Database) {
	return func(db *v1alpha1.Database) { db.UID = uid }
}

// withSize returns a change of the size in the spec.
func withSize(size string) func(*v1alpha1.Database) {
	return func(db *v1alpha1.Database) { db.Spec.Storage.Size = resource.MustParse(size) }
}

// withClass returns a change of the storage class in the spec.
func withClass(class string) func(*v1alpha1.Database) {
	return func(db *v1alpha1.Database) { db.Spec.Storage.StorageClassName = &class }
}

// withImage returns a change of the image in the spec.
func withImage(image string) func(*v1alpha1.Database) {
	return func(db *v1alpha1.Database) { db.Spec.Image = image }
}

// withBackup turns on the backup of a Database.
func withBackup(db *v1alpha1.Database) {
	db.Spec.Backup = &v1alpha1.DatabaseBackup{Schedule: "0 3 * * *", Keep: 2, Destination: v1alpha1.BackupDestination{
		Claim: v1alpha1.BackupClaim{Size: resource.MustParse("1Gi")},
	}}
}

// fixture reconciles a Database on fake clientsets.
type fixture struct {
	*kindtest.Fixture[*v1alpha1.Database]
}

func newFixture(t testing.TB, db *v1alpha1.Database, others ...runtime.Object) fixture {
	t.Helper()
	return newFixtureWith(t, Options{}, db, others...)
}

// newFixtureWith returns a fixture whose controller has the given options.
func newFixtureWith(t testing.TB, options Options, db *v1alpha1.Database, others ...runtime.Object) fixture {
	t.Helper()
	declared := func(c kinds.Cluster, r controller.Runtime) (controller.Kind[*v1alpha1.Database], error) {
		return declare(c, r, options)
	}
	return fixture{kindtest.New(t, declared, db, others...)}
}

// readyFixture returns a fixture whose Database, with the given changes, is Ready.
func readyFixture(t testing.TB, changes ...func(*v1alpha1.Database)) fixture {
	t.Helper()
	f := newFixture(t, example(changes...))
	for range 2 {
		if r := f.Reconcile(); r.Err != nil {
			t.Fatal(r.Err)
		}
		f.start()
	}
	controllertest.Equal(t, "phase", v1alpha1.DatabaseReady, f.Object().Status.Phase)
	return f
}

// start sets the status that the StatefulSet and the claim have while PostgreSQL runs.
func (f fixture) start() {
	f.changeStatefulSet(func(s *appsv1.StatefulSet) {
		s.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: s.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1,
		}
	})
	f.changeClaim(func(c *corev1.PersistentVolumeClaim) {
		c.Finalizers = []string{claimProtection}
		c.Spec.StorageClassName = ptr.To(ptr.Deref(c.Spec.StorageClassName, "standard"))
		c.Status = corev1.PersistentVolumeClaimStatus{
			Phase: corev1.ClaimBound, Capacity: c.Spec.Resources.Requests.DeepCopy(),
		}
	})
}

// secret returns the stored Secret, or nil.
func (f fixture) secret() *corev1.Secret {
	return kindtest.Get[*corev1.Secret](f.Cluster, "default", "shop-credentials")
}

// certificate returns the stored Secret with the CA and the certificate, or nil.
func (f fixture) certificate() *corev1.Secret {
	return kindtest.Get[*corev1.Secret](f.Cluster, "default", "shop-certificate")
}

// encryption returns the encryption in the stored Secret.
func (f fixture) encryption() encryption { return encryptionOf(f.certificate().Data) }

func (f fixture) changeSecret(change func(*corev1.Secret)) {
	kindtest.Change(f.Cluster, "default", "shop-credentials", change)
}

// claim returns the stored claim, or nil.
func (f fixture) claim() *corev1.PersistentVolumeClaim {
	return kindtest.Get[*corev1.PersistentVolumeClaim](f.Cluster, "default", "shop")
}

func (f fixture) changeClaim(change func(*corev1.PersistentVolumeClaim)) {
	kindtest.Change(f.Cluster, "default", "shop", change)
}

// statefulSet returns the stored StatefulSet, or nil.
func (f fixture) statefulSet() *appsv1.StatefulSet {
	return kindtest.Get[*appsv1.StatefulSet](f.Cluster, "default", "shop")
}

func (f fixture) changeStatefulSet(change func(*appsv1.StatefulSet)) {
	kindtest.Change(f.Cluster, "default", "shop", change)
}

// pod returns the Pod of the stored StatefulSet, with a status and the revision of its template.
func (f fixture) pod(revision string, status corev1.PodStatus) *corev1.Pod {
	s := f.statefulSet()
	pod := &corev1.Pod{
		ObjectMeta: *s.Spec.Template.ObjectMeta.DeepCopy(), Spec: *s.Spec.Template.Spec.DeepCopy(), Status: status,
	}
	pod.Namespace, pod.Name = s.Namespace, s.Name+"-0"
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = revision
	pod.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(s, appsv1.SchemeGroupVersion.WithKind("StatefulSet")),
	}
	return pod
}

// settings returns the stored settings Secret, or nil.
func (f fixture) settings() *corev1.Secret {
	return kindtest.Get[*corev1.Secret](f.Cluster, "default", "shop-settings")
}

// revision returns the revision of the stored settings.
func (f fixture) revision() string { return revisionOf(f.settings()) }

// ready returns the condition Ready. It is empty if the Database has none.
func (f fixture) ready() metav1.Condition {
	return ptr.Deref(conditions.Find(f.Object().Status.Conditions, conditions.Ready), metav1.Condition{})
}

// reason returns the reason of the condition Ready, or "".
func (f fixture) reason() string { return f.ready().Reason }
