package app

import (
	"errors"
	"strings"
	"testing"

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

func TestClaimThatCannotHaveItsSizeDoesNotStopRollout(t *testing.T) {
	denied := apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), "web-data", errors.New("denied"))
	for size, message := range map[string]string{
		"2Gi": "StorageCannotGrow: The volume of PersistentVolumeClaim web-data keeps its size 1Gi: updating " +
			"PersistentVolumeClaim default/web-data: persistentvolumeclaims \"web-data\" is forbidden: denied.",
		"512Mi": "StorageCannotShrink: The volume of PersistentVolumeClaim web-data has the size 1Gi, and cannot shrink to " +
			"512Mi. Set the size of the claim in spec.volumes to 1Gi.",
	} {
		t.Run(size, func(t *testing.T) {
			f := dataFixture(t)
			f.Journal.FailNext("patch", "persistentvolumeclaims", denied)
			f.Change(withData(size))
			f.Change(image("web:2"))
			for range 2 { // the second reconcile does not try again
				f.Reconcile()
				controllertest.Equal(t, "image", "web:2", f.deployment().Spec.Template.Spec.Containers[0].Image)
				if !strings.Contains(f.ready(), message) {
					t.Errorf("the condition is %s", f.ready())
				}
				controllertest.Equal(t, "size", resource.MustParse("1Gi"),
					f.claim().Spec.Resources.Requests[corev1.ResourceStorage])
			}
		})
	}
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
