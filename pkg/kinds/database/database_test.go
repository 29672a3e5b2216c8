package database

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

const (
	updateStatus = "update databases/status default/shop"
	patchClaim   = "patch persistentvolumeclaims default/shop"
	patchSecret  = "patch secrets default/shop-credentials"
	patchSet     = "patch statefulsets default/shop"
)

func grown(size string) func(*v1alpha1.Database) {
	return func(db *v1alpha1.Database) { db.Spec.Storage.Size = resource.MustParse(size) }
}

func TestWhatADatabaseMakes(t *testing.T) {
	w := newWorld(t, example(func(db *v1alpha1.Database) { db.Finalizers = nil }))
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "writes", []string{
		"patch databases default/shop", // the finalizer comes first
		"create secrets default/shop-credentials", "create services default/shop", "create persistentvolumeclaims default/shop", "create statefulsets default/shop",
		updateStatus,
	}, w.journal.Writes())
	status := w.db().Status
	controllertest.Equal(t, "phase", v1alpha1.DatabaseDeploying, status.Phase)
	controllertest.Equal(t, "binding", &v1alpha1.SecretBinding{Name: "shop-credentials"}, status.Binding)
	controllertest.Equal(t, "storage", "1Gi", status.Storage.String())
	if claim := w.claim(); len(claim.OwnerReferences) > 0 {
		t.Errorf("garbage collection would take the claim: %v", claim.OwnerReferences)
	}
	w.comeUp()
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "phase", v1alpha1.DatabaseReady, w.db().Status.Phase)
	before := len(w.journal.Writes())
	result, err := w.pass()
	if err != nil || !result.Check || result.RequeueAfter < 9*time.Minute || result.RequeueAfter > 11*time.Minute {
		t.Errorf("a pass at rest ended with %+v, %v", result, err)
	}
	controllertest.Equal(t, "writes at rest", nil, w.journal.Writes()[before:])
}

func TestTheVolume(t *testing.T) {
	refused := apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), "shop", errors.New("the class does not allow it"))
	for name, c := range map[string]struct {
		change func(*v1alpha1.Database)
		others func(*corev1.PersistentVolumeClaim)
		refuse error
		writes []string
		size   string
		reason string
	}{
		"grows":                                  {change: grown("2Gi"), writes: []string{patchClaim, updateStatus}, size: "2Gi", reason: "Available"},
		"stays larger than is wanted":            {others: size("5Gi"), writes: []string{patchClaim, updateStatus}, size: "5Gi", reason: "Available"},
		"that is not there yet does not grow":    {change: grown("2Gi"), others: func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending }, writes: []string{updateStatus}, size: "1Gi", reason: "Available"},
		"that cannot grow stays, and it says so": {change: grown("2Gi"), refuse: refused, writes: []string{patchClaim, updateStatus}, size: "1Gi", reason: "StorageCannotGrow"},
		"that cannot grow holds up nothing else": {
			change: func(db *v1alpha1.Database) { grown("2Gi")(db); db.Spec.Image = "postgres:17.6" }, refuse: refused,
			writes: []string{patchClaim, patchSet, updateStatus}, size: "1Gi", reason: "StorageCannotGrow",
		},
		"of another class stays, and it says so": {
			change: func(db *v1alpha1.Database) { db.Spec.Storage.StorageClassName = ptr.To("fast") }, writes: []string{updateStatus}, size: "1Gi", reason: "StorageClassMismatch",
		},
		"of another class does not grow first": {
			change: func(db *v1alpha1.Database) { grown("2Gi")(db); db.Spec.Storage.StorageClassName = ptr.To("fast") }, writes: []string{updateStatus}, size: "1Gi", reason: "StorageClassMismatch",
		},
		"that was asked for too much can be asked for less, while it has less": {
			change: grown("2Gi"), others: size("1Ti"), writes: []string{patchClaim, updateStatus}, size: "2Gi", reason: "Available",
		},
		"that somebody has deleted is told of, and its Pod left alone": {
			change: func(db *v1alpha1.Database) { db.Spec.Image = "postgres:17.6" }, others: func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
			writes: []string{updateStatus}, size: "1Gi", reason: "VolumeDeleted",
		},
		"that is gone is told of": {
			others: func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }, writes: []string{updateStatus}, size: "1Gi", reason: "VolumeLost",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := up(t)
			if c.change != nil {
				w.change(c.change)
			}
			if c.others != nil {
				claim := w.claim()
				c.others(claim)
				w.update("persistentvolumeclaims", claim)
			}
			if c.refuse != nil {
				w.journal.FailNext("patch", "persistentvolumeclaims", c.refuse)
			}
			before := len(w.journal.Writes())
			_, err := w.pass()
			controllertest.Equal(t, "it is said", strings.HasPrefix(c.reason, "StorageC") || c.reason == "VolumeDeleted", err != nil)
			controllertest.Equal(t, "writes", c.writes, w.journal.Writes()[before:])
			controllertest.Equal(t, "size", c.size, sizeOf(w.claim()).String())
			controllertest.Equal(t, "status.storage", "1Gi", w.db().Status.Storage.String()) // the capacity
			controllertest.Equal(t, "class", "standard", *w.claim().Spec.StorageClassName)
			controllertest.Equal(t, "reason", c.reason, reason(w.db()))
		})
	}
}

// TestAVolumeThatCannotGrowIsAskedAgainOnlyNowAndThen uses the same refusals in all reconciles.
func TestAVolumeThatCannotGrowIsAskedAgainOnlyNowAndThen(t *testing.T) {
	refused := apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), "shop", errors.New("the class does not allow it"))
	clk := clocktesting.NewFakePassiveClock(time.Now())
	r := controller.NewRefusals[string](clk)
	w := up(t)
	asked := func(want int, why string) {
		t.Helper()
		w.forget()
		pipeline := w.fill()
		pipeline.Reconciler.(*reconciler).refusals = r
		w.journal.FailNext("patch", "persistentvolumeclaims", refused)
		before := w.journal.Writes()
		_, err := pipeline.Sync(t.Context(), controller.Key{Namespace: "default", Name: "shop"})
		n := 0
		for _, write := range w.journal.Writes()[len(before):] {
			if write == patchClaim {
				n++
			}
		}
		if n != want || err == nil || reason(w.db()) != "StorageCannotGrow" {
			t.Errorf("%s it was asked %d times, and the error is %v", why, n, err)
		}
	}
	w.change(grown("2Gi"))
	asked(1, "at first")
	asked(0, "at the next event")
	clk.SetTime(clk.Now().Add(growthRetry))
	asked(1, "later")
	w.change(grown("3Gi"))
	asked(1, "for another size")
	asked(0, "at the next event")
}

func size(quantity string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(quantity)
	}
}

func reason(db *v1alpha1.Database) string {
	for _, c := range db.Status.Conditions {
		if c.Type == "Ready" {
			return c.Reason
		}
	}
	return ""
}

func TestAVolumeIsTakenUpByTheNextOfTheName(t *testing.T) {
	w := up(t)
	left := w.claim()
	again := newWorld(t, example(func(db *v1alpha1.Database) { db.UID = "another-uid" }), left)
	if _, err := again.pass(); err != nil {
		t.Fatal(err)
	}
	for _, write := range again.journal.Writes() {
		if strings.Contains(write, "persistentvolumeclaims") {
			t.Errorf("the claim cost a write: %s", write)
		}
	}
	controllertest.Equal(t, "claim", left.UID, again.claim().UID)

	// The storage class of an existing claim need not be in the spec.
	classed := up(t, func(db *v1alpha1.Database) { db.Spec.Storage.StorageClassName = ptr.To("fast") })
	again = newWorld(t, example(func(db *v1alpha1.Database) { db.UID = "another-uid" }), classed.claim())
	if _, err := again.pass(); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "class", "fast", *again.claim().Spec.StorageClassName)

	theirs := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop", UID: "theirs"}}
	foreign := newWorld(t, example(), theirs)
	if _, err := foreign.pass(); err == nil {
		t.Error("a claim of somebody else's was taken up")
	}
	controllertest.Equal(t, "reason", "NameConflict", reason(foreign.db()))
	controllertest.Equal(t, "their claim", theirs, foreign.claim())
}

func TestTheVolumeOfADeletedDatabase(t *testing.T) {
	const remove, release = "delete persistentvolumeclaims default/shop", "patch databases default/shop"
	deleted := func(policy v1alpha1.DeletionPolicy, finalizers ...string) func(*v1alpha1.Database) {
		return func(db *v1alpha1.Database) {
			db.DeletionTimestamp, db.Spec.DeletionPolicy = &metav1.Time{Time: time.Now()}, policy
			db.Finalizers = append(db.Finalizers, finalizers...)
		}
	}
	for name, c := range map[string]struct {
		cached, live func(*v1alpha1.Database)
		others       func(w *world)
		writes       []string
	}{
		"stays with Retain": {cached: deleted(v1alpha1.DeletionRetain), writes: []string{release}},
		"goes with Delete":  {cached: deleted(v1alpha1.DeletionDelete), writes: []string{remove, release}},
		"stays if the last word, which the cache does not have yet, is Retain": {
			cached: deleted(v1alpha1.DeletionDelete), live: func(db *v1alpha1.Database) { db.Spec.DeletionPolicy = v1alpha1.DeletionRetain }, writes: []string{release},
		},
		"stays if another Database has the name by now": {
			cached: deleted(v1alpha1.DeletionDelete), live: func(db *v1alpha1.Database) { db.UID = "another-uid" }, writes: []string{release},
		},
		"stays with the other children that are orphaned": {cached: deleted(v1alpha1.DeletionDelete, metav1.FinalizerOrphanDependents), writes: []string{release}},
		"stays with the other children that were orphaned a moment ago": {cached: deleted(v1alpha1.DeletionDelete), others: func(w *world) {
			s := w.statefulSet()
			s.OwnerReferences = nil
			w.update("statefulsets", s)
		}, writes: []string{release}},
		"goes although its label was taken away": {cached: deleted(v1alpha1.DeletionDelete), others: func(w *world) {
			claim := w.claim()
			claim.Labels = nil
			w.update("persistentvolumeclaims", claim)
		}, writes: []string{remove, release}},
		"goes although the StatefulSet has gone": {cached: deleted(v1alpha1.DeletionDelete), others: func(w *world) {
			if err := w.kube.Tracker().Delete(appsv1.SchemeGroupVersion.WithResource("statefulsets"), "default", "shop"); err != nil {
				t.Fatal(err)
			}
		}, writes: []string{remove, release}},
		"may be gone already": {cached: deleted(v1alpha1.DeletionDelete), others: func(w *world) {
			if err := w.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "default", "shop"); err != nil {
				t.Fatal(err)
			}
		}, writes: []string{release}},
	} {
		t.Run(name, func(t *testing.T) {
			w := up(t)
			w.change(c.cached)
			if c.others != nil {
				c.others(w)
			}
			w.forget()
			pipeline, before := w.fill(), len(w.journal.Writes())
			if c.live != nil {
				w.change(c.live)
			}
			if _, err := pipeline.Sync(t.Context(), controller.Key{Namespace: "default", Name: "shop"}); err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "writes", c.writes, w.journal.Writes()[before:])
		})
	}
}

// TestDataIsKeptWhileItIsUnknownWhatTheLastWordIs has the API server fail, or return one 404 for an
// object that the cache has.
func TestDataIsKeptWhileItIsUnknownWhatTheLastWordIs(t *testing.T) {
	for _, c := range []struct {
		resource string
		err      error
	}{
		{"databases", errors.New("no answer")},
		{"databases", gone},
		{"statefulsets", errors.New("no answer")},
		{"statefulsets", gone},
		{"persistentvolumeclaims", errors.New("no answer")},
		{"persistentvolumeclaims", gone},
	} {
		w := up(t)
		w.change(func(db *v1alpha1.Database) {
			db.DeletionTimestamp, db.Spec.DeletionPolicy = &metav1.Time{Time: time.Now()}, v1alpha1.DeletionDelete
		})
		w.forget()
		pipeline := w.fill()
		w.journal.FailNext("get", c.resource, c.err)
		if _, err := pipeline.Sync(t.Context(), controller.Key{Namespace: "default", Name: "shop"}); err == nil {
			t.Errorf("though the answer about %s was %v, the pass ended well", c.resource, c.err)
		}
		w.claim()
		controllertest.Equal(t, "finalizers", []string{finalizerName}, w.db().Finalizers)
	}
}

// gone is the API server's error for a missing object.
var gone = apierrors.NewNotFound(schema.GroupResource{}, "shop")

func TestAPodOfAnEarlierTemplateThatDoesNotStartIsReplaced(t *testing.T) {
	const remove = "delete pods default/shop-0"
	for name, c := range map[string]struct {
		status   corev1.PodStatus
		revision string
		writes   []string
	}{
		"when it cannot start":                            {status: blocked("ImagePullBackOff"), revision: "old", writes: []string{remove}},
		"when it crashes":                                 {status: crashed(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, ""), revision: "old", writes: []string{remove}},
		"but not while it is being started":               {status: blocked("ContainerCreating"), revision: "old"},
		"but not one of the newest template, which it is": {status: blocked("ImagePullBackOff"), revision: "new"},
	} {
		t.Run(name, func(t *testing.T) {
			w := up(t)
			s := w.statefulSet()
			s.Status.UpdateRevision, s.Status.UpdatedReplicas, s.Status.ReadyReplicas = "new", 0, 0
			w.update("statefulsets", s)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "shop-0", UID: "pod-uid", Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: c.revision},
				OwnerReferences: []metav1.OwnerReference{{UID: s.UID, Controller: ptr.To(true)}},
			}, Status: c.status}
			maps.Copy(pod.Labels, s.Spec.Template.Labels)
			if err := w.kube.Tracker().Add(pod); err != nil {
				t.Fatal(err)
			}
			before := len(w.journal.Writes())
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "writes", c.writes, without(w.journal.Writes()[before:], updateStatus))
		})
	}
}

// TestNew runs the controller with informers and a clock that stands still, so that only events start a
// reconcile.
func TestNew(t *testing.T) {
	w := newWorld(t, example())
	c, err := New(w.cluster, w.runtime(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "name", "database", c.Name())
	controllertest.Run(t, c, 2, w.cluster.Owned, w.cluster.Own)
	w.eventually("its StatefulSet", func() bool {
		_, err := w.kube.AppsV1().StatefulSets("default").Get(t.Context(), "shop", metav1.GetOptions{})
		return err == nil && w.db().Status.Phase == v1alpha1.DatabaseDeploying
	})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "shop-0", Labels: w.statefulSet().Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{{UID: w.statefulSet().UID, Controller: ptr.To(true)}},
		},
		Status: blocked("ImagePullBackOff"),
	}
	if _, err := w.kube.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("what the Pod says", func() bool { return reason(w.db()) == "ImagePullBackOff" })
	claim := w.claim()
	claim.Status.Phase = corev1.ClaimLost
	if _, err := w.kube.CoreV1().PersistentVolumeClaims("default").UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("what the claim says", func() bool { return reason(w.db()) == "VolumeLost" })
}

func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		w.t.Fatalf("waiting for %s: %v", what, err)
	}
}
