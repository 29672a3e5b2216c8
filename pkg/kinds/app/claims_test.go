package app

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

const (
	createClaim = "create persistentvolumeclaims default/web-data"
	patchClaim  = "patch persistentvolumeclaims default/web-data"
)

// claim returns the stored claim of an App that withData has changed, or nil.
func (f fixture) claim() *corev1.PersistentVolumeClaim {
	return kindtest.Get[*corev1.PersistentVolumeClaim](f.Cluster, "default", "web-data")
}

// bind gives the claim a volume of its size.
func (f fixture) bind() {
	kindtest.Change(f.Cluster, "default", "web-data", func(claim *corev1.PersistentVolumeClaim) {
		claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
	})
}

// dataFixture returns a fixture with an App whose Pods have a bound claim of 1Gi.
func dataFixture(t *testing.T) fixture {
	t.Helper()
	f := readyFixture(t, withData("1Gi"))
	f.bind()
	return f
}

func TestClaimIsCreatedBeforeDeployment(t *testing.T) {
	f := newFixture(t, example(withData("1Gi")))
	controllertest.Equal(t, "writes", []string{createClaim, createDeployment, createService, updateStatus},
		f.Reconcile().Writes)
	claim := f.claim()
	controllertest.Equal(t, "owner references", 0, len(claim.OwnerReferences))
	controllertest.Equal(t, "label by which Argo CD finds objects", "", claim.Labels["app.kubernetes.io/instance"])
	controllertest.Equal(t, "access modes", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		claim.Spec.AccessModes)
}

func TestClaimOutlivesItsVolume(t *testing.T) {
	f := dataFixture(t)
	f.Change(func(app *v1alpha1.App) { app.Spec.Volumes = nil })
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "volumes of the Pods", 0, len(f.deployment().Spec.Template.Spec.Volumes))
	if f.claim() == nil {
		t.Fatal("the claim was deleted")
	}
	f.Change(withData("1Gi"))
	controllertest.Equal(t, "writes", []string{"patch deployments default/web", updateStatus}, f.Reconcile().Writes)
}

func TestClaimOfSomebodyElseIsNotUsed(t *testing.T) {
	theirs := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-data", UID: "theirs", ResourceVersion: "3"},
	}
	f := newFixture(t, example(withData("1Gi")), theirs)
	controllertest.ErrorContains(t, "PersistentVolumeClaim default/web-data already exists and belongs to nobody",
		f.Reconcile().Err)
	if f.deployment() != nil {
		t.Error("the Deployment uses the claim of somebody else")
	}
}

func TestClaimGrows(t *testing.T) {
	f := dataFixture(t)
	f.Change(withData("2Gi"))
	controllertest.Equal(t, "writes", []string{patchClaim}, f.Reconcile().Writes[:1])
	controllertest.Equal(t, "size", "2Gi", ptr.To(f.claim().Spec.Resources.Requests[corev1.ResourceStorage]).String())
}

func TestClaimThatCannotGrowDoesNotStopRollout(t *testing.T) {
	f := dataFixture(t)
	f.Journal.FailNext("patch", "persistentvolumeclaims",
		apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), "web-data", errors.New("denied")))
	f.Change(withData("2Gi"))
	f.Change(image("web:2"))
	for range 2 { // the second reconcile does not try again
		f.Reconcile()
		controllertest.Equal(t, "image", "web:2", f.deployment().Spec.Template.Spec.Containers[0].Image)
		if !strings.Contains(f.ready(), "StorageCannotGrow: The volume of PersistentVolumeClaim web-data keeps its size "+
			"1Gi: updating PersistentVolumeClaim default/web-data: persistentvolumeclaims \"web-data\" is forbidden: denied.") {
			t.Errorf("the condition is %s", f.ready())
		}
		controllertest.Equal(t, "size", resource.MustParse("1Gi"), f.claim().Spec.Resources.Requests[corev1.ResourceStorage])
	}
}

func TestSizeBelowSizeOfVolumeHasNoEffect(t *testing.T) {
	f := dataFixture(t)
	f.Change(withData("512Mi"))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "size", resource.MustParse("1Gi"), f.claim().Spec.Resources.Requests[corev1.ResourceStorage])
}

func TestClaimWithOtherAccessModesIsNotUsed(t *testing.T) {
	f := dataFixture(t)
	f.Change(withData("1Gi", corev1.ReadWriteMany))
	f.Change(image("web:2"))
	controllertest.ErrorContains(t, "PersistentVolumeClaim web-data of a previous App or volume has the storage class "+
		"\"\" and the access modes [ReadWriteOnce]", f.Reconcile().Err)
	controllertest.Equal(t, "image", "web:1", f.deployment().Spec.Template.Spec.Containers[0].Image)
}

func TestDeploymentWaitsForPodsThatUseTheClaim(t *testing.T) {
	f := dataFixture(t)
	pod := podOf(f.deployment(), "web-7d9f8-a", corev1.PodStatus{})
	pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: f.Clock.Now()}, []string{"example.com/wait"}
	f.Store(pod)
	f.Remove(f.deployment())
	controllertest.ErrorContains(t, "Waiting for the previous Pods, which use PersistentVolumeClaim web-data, to end.",
		f.Reconcile().Err)
	f.Remove(pod)
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	if f.deployment() == nil {
		t.Error("the Deployment was not created again after the Pods had ended")
	}
}

// TestHeldTemplateKeepsItsStrategy adds a claim, which needs the strategy Recreate, while the new template is held.
func TestHeldTemplateKeepsItsStrategy(t *testing.T) {
	f := rolledOutFixture(t)
	f.Change(withData("1Gi"))
	f.reconcile()
	controllertest.Equal(t, "strategy while beforeRollout runs", appsv1.RollingUpdateDeploymentStrategyType,
		f.deployment().Spec.Strategy.Type)
	f.endRun(0, "")
	f.reconcile()
	controllertest.Equal(t, "strategy after beforeRollout", appsv1.RecreateDeploymentStrategyType,
		f.deployment().Spec.Strategy.Type)
}

func TestDeletedClaimStopsRollout(t *testing.T) {
	f := dataFixture(t)
	kindtest.Change(f.Cluster, "default", "web-data", func(claim *corev1.PersistentVolumeClaim) {
		claim.DeletionTimestamp = &metav1.Time{Time: f.Clock.Now()}
		claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
	})
	f.Change(image("web:2"))
	f.Reconcile()
	controllertest.Equal(t, "image", "web:1", f.deployment().Spec.Template.Spec.Containers[0].Image)
	if !strings.Contains(f.ready(), "VolumeDeleted: PersistentVolumeClaim web-data is being deleted.") {
		t.Errorf("the condition is %s", f.ready())
	}
}
