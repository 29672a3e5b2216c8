package database

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/claims"
)

func TestMain(m *testing.M) { controllertest.Main(m, Messages) }

func TestReconcileCreatesChildrenOfDatabase(t *testing.T) {
	f := newFixture(t, example(func(db *v1alpha1.Database) { db.Finalizers = nil }))
	r := f.Reconcile()
	controllertest.ErrorContains(t, "", r.Err)
	controllertest.Equal(t, "writes", []string{
		patchDatabase, // the finalizer is added first
		createCertificate, createSecret, createSettings, createService, createClaim, createStatefulSet, updateStatus,
	}, r.Writes)
	status := f.Object().Status
	controllertest.Equal(t, "phase", v1alpha1.DatabaseDeploying, status.Phase)
	controllertest.Equal(t, "binding", &v1alpha1.SecretBinding{Name: "shop-credentials"}, status.Binding)
	controllertest.Equal(t, "storage", "1Gi", status.Storage.String())
	// Garbage collection would delete a claim with an owner reference.
	controllertest.Equal(t, "owner references of the claim", nil, f.claim().OwnerReferences)
	f.start()
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "phase", v1alpha1.DatabaseReady, f.Object().Status.Phase)
	r = f.Reconcile()
	if r.Err != nil {
		t.Error(r.Err)
	}
	controllertest.Resyncs(t, 10*time.Minute, r.Result)
	controllertest.Equal(t, "writes of the no-op reconcile", nil, r.Writes)
}

// rejectedGrowth is the error of the API server for a claim whose storage class allows no expansion.
var rejectedGrowth = apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), "shop",
	errors.New("the class does not allow it"))

func TestReconcileVolume(t *testing.T) {
	for name, c := range map[string]struct {
		change      func(*v1alpha1.Database)
		changeClaim func(*corev1.PersistentVolumeClaim)
		stopped     bool // whether PostgreSQL does not run
		reject      error
		writes      []string
		size        string
		reason      string
		err         string // a part of the error
	}{
		"a larger size in the spec grows the volume": {
			change: withSize("2Gi"), writes: []string{patchClaim, updateStatus}, size: "2Gi", reason: "Available",
		},
		"a claim that is larger than the spec keeps its size": {
			changeClaim: requesting("5Gi"), writes: []string{patchClaim, updateStatus}, size: "5Gi", reason: "Available",
		},
		"an unbound claim does not grow": {
			change: withSize("2Gi"), changeClaim: func(c *corev1.PersistentVolumeClaim) {
				c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
			}, stopped: true, writes: []string{updateStatus}, size: "1Gi", reason: "Starting",
		},
		"a rejected growth does not stop the next steps": {
			change: func(db *v1alpha1.Database) { withSize("2Gi")(db); withImage("postgres:17.6")(db) }, reject: rejectedGrowth,
			writes: []string{patchClaim, patchStatefulSet, updateStatus}, size: "1Gi", reason: "StorageCannotGrow",
			err: "the class does not allow it",
		},
		"another storage class is reported, and the claim keeps its class": {
			change: withClass("fast"), writes: []string{updateStatus}, size: "1Gi", reason: "StorageClassMismatch",
			err: `"fast"`,
		},
		"a requested size shrinks while it exceeds the capacity": {
			change: withSize("2Gi"), changeClaim: requesting("1Ti"), writes: []string{
				patchClaim, updateStatus,
			}, size: "2Gi", reason: "Available",
		},
		"a claim that is being deleted is reported, and the Pod stays": {
			change: withImage("postgres:17.6"), changeClaim: func(c *corev1.PersistentVolumeClaim) {
				c.DeletionTimestamp = new(metav1.Now())
			},
			writes: []string{updateStatus}, size: "1Gi", reason: "VolumeDeleted",
			err: "PersistentVolumeClaim shop is being deleted",
		},
		"a lost volume is reported": {
			changeClaim: func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }, writes: []string{
				updateStatus,
			}, size: "1Gi", reason: "VolumeLost",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t)
			if c.change != nil {
				f.Change(c.change)
			}
			if c.changeClaim != nil {
				f.changeClaim(c.changeClaim)
			}
			if c.stopped {
				f.changeStatefulSet(func(s *appsv1.StatefulSet) { s.Status.ReadyReplicas = 0 })
			}
			if c.reject != nil {
				f.Journal.FailNext("patch", "persistentvolumeclaims", c.reject)
			}
			r := f.Reconcile()
			controllertest.ErrorContains(t, c.err, r.Err)
			controllertest.Equal(t, "writes", c.writes, r.Writes)
			controllertest.Equal(t, "size", c.size, claims.Requested(f.claim()).String())
			controllertest.Equal(t, "status.storage", "1Gi", f.Object().Status.Storage.String()) // the capacity
			controllertest.Equal(t, "class", "standard", *f.claim().Spec.StorageClassName)
			controllertest.Equal(t, "reason", c.reason, f.reason())
		})
	}
}

func TestReconcileDelaysRetryOfRejectedVolumeExpansion(t *testing.T) {
	f := readyFixture(t)
	reconcile := func(when string, writes ...string) {
		t.Helper()
		if len(writes) > 0 {
			f.Journal.FailNext("patch", "persistentvolumeclaims", rejectedGrowth)
		}
		r := f.Reconcile()
		controllertest.ErrorContains(t, "the class does not allow it", r.Err)
		controllertest.Equal(t, "reason "+when, "StorageCannotGrow", f.reason())
		controllertest.Equal(t, "writes "+when, writes, r.Writes)
	}
	f.Change(withSize("2Gi"))
	reconcile("of the first attempt", patchClaim, updateStatus)
	reconcile("at the next event")
	f.Clock.Step(growthRetry)
	reconcile("after the delay", patchClaim)
	f.Change(withSize("3Gi"))
	reconcile("for another size", patchClaim, updateStatus)
	reconcile("at the next event")
}

// requesting returns a change of the size that a claim requests.
func requesting(size string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
	}
}

func TestNewDatabaseReusesVolumeOfSameName(t *testing.T) {
	created := []string{
		createCertificate, createSecret, createSettings, createService, patchClaim, createStatefulSet, updateStatus,
	}
	for name, c := range map[string]struct {
		claim  *corev1.PersistentVolumeClaim
		writes []string
		reason string
		err    string // a part of the error
	}{
		"the claim of an earlier Database is reused": {
			claim: readyFixture(t).claim(), writes: created, reason: "Starting",
		},
		"the storage class of an earlier claim need not be in the spec": {
			claim: readyFixture(t, withClass("fast")).claim(), writes: created, reason: "Starting",
		},
		"a claim of somebody else is not reused": {
			claim: &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop", UID: "theirs", ResourceVersion: "1"},
			},
			writes: []string{
				createCertificate, createSecret, createSettings, createService, createClaim, updateStatus,
			}, reason: "NameConflict", err: "already exists",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(withUID("another-uid")), c.claim)
			r := f.Reconcile()
			controllertest.ErrorContains(t, c.err, r.Err)
			controllertest.Equal(t, "writes", c.writes, r.Writes)
			// The reconcile may change only annotations of the claim.
			controllertest.Equal(t, "claim", c.claim, f.claim(), cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion"),
				cmpopts.IgnoreMapEntries(func(key, _ string) bool {
					return key == children.RecordAnnotation || key == children.UsedByAnnotation
				}))
			controllertest.Equal(t, "reason", c.reason, f.reason())
		})
	}
}

// deleted returns a change that marks a Database as being deleted, with the given policy and additional
// finalizers.
func deleted(policy v1alpha1.DeletionPolicy, finalizers ...string) func(*v1alpha1.Database) {
	return func(db *v1alpha1.Database) {
		db.DeletionTimestamp, db.Spec.DeletionPolicy = new(metav1.Now()), policy
		db.Finalizers = append(db.Finalizers, finalizers...)
	}
}

func TestFinalizeVolume(t *testing.T) {
	for name, c := range map[string]struct {
		delete func(*v1alpha1.Database)
		before func(fixture) // changes that the caches observe
		after  func(fixture) // changes that the caches do not observe, so that the reconcile ends in a conflict
		writes []string
		next   []string // the writes of the reconcile after a conflict
	}{
		"the claim stays with deletionPolicy Retain": {
			delete: deleted(v1alpha1.DeletionRetain), writes: []string{patchDatabase},
		},
		"the claim is deleted with deletionPolicy Delete": {
			delete: deleted(v1alpha1.DeletionDelete), writes: []string{deleteClaim, patchDatabase},
		},
		"the claim stays if the live deletionPolicy is Retain": {
			delete: deleted(v1alpha1.DeletionDelete), after: func(f fixture) {
				f.Change(func(db *v1alpha1.Database) { db.Spec.DeletionPolicy = v1alpha1.DeletionRetain })
			}, writes: []string{patchDatabase}, next: []string{patchDatabase},
		},
		"the claim stays if a new Database has the name": {
			delete: deleted(v1alpha1.DeletionDelete), after: func(f fixture) {
				f.Remove(f.Object())
				f.Store(example(withUID("another-uid"), func(db *v1alpha1.Database) {
					db.Spec.DeletionPolicy = v1alpha1.DeletionDelete
				}))
			}, writes: []string{patchDatabase}, next: []string{updateStatus},
		},
		"the claim stays if the children are being orphaned": {
			delete: deleted(v1alpha1.DeletionDelete, metav1.FinalizerOrphanDependents), writes: []string{patchDatabase},
		},
		"the claim stays if the children were orphaned": {
			delete: deleted(v1alpha1.DeletionDelete), before: func(f fixture) {
				f.changeStatefulSet(func(s *appsv1.StatefulSet) { s.OwnerReferences = nil })
			}, writes: []string{patchDatabase},
		},
		"a claim without its label is deleted": {
			delete: deleted(v1alpha1.DeletionDelete), before: func(f fixture) {
				f.changeClaim(func(c *corev1.PersistentVolumeClaim) { c.Labels = nil })
			}, writes: []string{deleteClaim, patchDatabase},
		},
		"the claim is deleted after the StatefulSet": {
			delete: deleted(v1alpha1.DeletionDelete), before: func(f fixture) {
				f.Remove(f.statefulSet())
			}, writes: []string{deleteClaim, patchDatabase},
		},
		"a missing claim needs no deletion": {
			delete: deleted(v1alpha1.DeletionDelete), before: func(f fixture) { f.Remove(f.claim()) }, writes: []string{
				patchDatabase,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t)
			f.Change(c.delete)
			if c.before != nil {
				c.before(f)
			}
			f.Observe()
			if c.after != nil {
				c.after(f)
			}
			r := f.ReconcileAsCached()
			controllertest.Equal(t, "conflict", c.after != nil, apierrors.IsConflict(r.Err))
			controllertest.Equal(t, "writes", c.writes, r.Writes)
			if c.after != nil {
				r = f.Reconcile()
				controllertest.Equal(t, "writes of the next reconcile", c.next, r.Writes)
			} else {
				controllertest.ErrorContains(t, "", r.Err)
			}
		})
	}
}

// TestFinalizeKeepsVolumeIfLiveReadFails makes the API server fail, or return 404 once for an object that
// the cache has.
func TestFinalizeKeepsVolumeIfLiveReadFails(t *testing.T) {
	noResponse, notFound := errors.New("no response"), apierrors.NewNotFound(schema.GroupResource{}, "shop")
	for name, c := range map[string]struct {
		resource string
		err      error
	}{
		"the Database cannot be read":    {"databases", noResponse},
		"the Database is not found":      {"databases", notFound},
		"the StatefulSet cannot be read": {"statefulsets", noResponse},
		"the StatefulSet is not found":   {"statefulsets", notFound},
		"the claim cannot be read":       {"persistentvolumeclaims", noResponse},
		"the cached claim is not found":  {"persistentvolumeclaims", notFound},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t)
			f.Change(deleted(v1alpha1.DeletionDelete))
			claim := f.claim()
			f.Journal.FailNext("get", c.resource, c.err)
			if r := f.Reconcile(); r.Err == nil {
				t.Errorf("although the read of %s failed with %v, the reconcile succeeded", c.resource, c.err)
			}
			controllertest.Equal(t, "claim", claim, f.claim())
			controllertest.Equal(t, "finalizers", []string{finalizerName}, f.Object().Finalizers)
			f.checkDeletion(!apierrors.IsNotFound(c.err))
		})
	}
}

func TestFinalizeReportsFailedDeletionOfVolume(t *testing.T) {
	f := readyFixture(t)
	f.Change(deleted(v1alpha1.DeletionDelete))
	const claims = "persistentvolumeclaims"
	f.Journal.FailNext("delete", claims, apierrors.NewForbidden(corev1.Resource(claims), "shop", errors.New("locked")))
	controllertest.Equal(t, "writes", []string{deleteClaim, updateStatus}, f.Reconcile().Writes)
	f.checkDeletion(true)
	controllertest.Equal(t, "reason", "Forbidden", f.reason())
}

// checkDeletion checks the status of a Database that is being deleted. If fails is true, the status must say that the
// deletion fails, and how to keep the data.
func (f fixture) checkDeletion(fails bool) {
	f.T.Helper()
	status, phase := f.Object().Status, v1alpha1.DatabaseReady
	if fails {
		phase = v1alpha1.DatabaseFailed
	}
	controllertest.Equal(f.T, "phase", phase, status.Phase)
	controllertest.Equal(f.T, "Degraded", fails, meta.IsStatusConditionTrue(status.Conditions, conditions.Degraded))
	const advice = "deleting the volume of Database default/shop (to keep it, set deletionPolicy to Retain): "
	if message := f.ready().Message; strings.HasPrefix(message, advice) != fails {
		f.T.Errorf("the message is %s", message)
	}
}

func TestReconcileReplacesFailingPodOfEarlierTemplate(t *testing.T) {
	const deletePod = "delete pods default/shop-0"
	backOff := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	for name, c := range map[string]struct {
		status   corev1.PodStatus
		revision string
		writes   []string
	}{
		"a Pod that cannot start is replaced": {
			status: blocked("ImagePullBackOff"), revision: "old", writes: []string{deletePod, updateStatus},
		},
		"a Pod that crashes repeatedly is replaced": {
			status: crashed(backOff, ""), revision: "old", writes: []string{deletePod, updateStatus},
		},
		"a Pod whose container is being created stays": {
			status: blocked("ContainerCreating"), revision: "old", writes: []string{updateStatus},
		},
		"a Pod of the newest template stays": {
			status: blocked("ImagePullBackOff"), revision: "new", writes: []string{updateStatus},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t)
			f.changeStatefulSet(func(s *appsv1.StatefulSet) {
				s.Status.UpdateRevision, s.Status.UpdatedReplicas, s.Status.ReadyReplicas = "new", 0, 0
			})
			f.Store(f.pod(c.revision, c.status))
			r := f.Reconcile()
			controllertest.ErrorContains(t, "", r.Err)
			controllertest.Equal(t, "writes", c.writes, r.Writes)
		})
	}
}

// TestControllerReconcilesOnEvents runs the controller with informers. The fake clock does not reach the next resync. A
// reconcile starts only on an event, or on a retry while a cache is outdated.
func TestControllerReconcilesOnEvents(t *testing.T) {
	f := newFixture(t, example())
	f.Cluster.Restart()
	c, err := New(f.Cluster.Cluster, f.Runtime(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "name", "database", c.Name())
	controllertest.Run(t, c, 2, f.Owned, f.Kinds, f.Others)
	f.awaitReason("Starting")
	controllertest.Equal(t, "phase", v1alpha1.DatabaseDeploying, f.Object().Status.Phase)
	f.changeStatefulSet(func(s *appsv1.StatefulSet) { s.Status.ObservedGeneration = s.Generation })
	f.Store(f.pod("new", blocked("ImagePullBackOff")))
	f.awaitReason("ImagePullBackOff")
	f.changeClaim(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost })
	f.awaitReason("VolumeLost")
}

// awaitReason waits until the condition Ready has a reason.
func (f fixture) awaitReason(reason string) {
	f.T.Helper()
	f.Eventually("reason "+reason, func() bool { return f.reason() == reason })
}
