package app

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

const (
	deleteClaim = "delete persistentvolumeclaims default/web-data"
	patchApp    = "patch apps default/web"
)

// withPolicy returns a change of the deletionPolicy of the claim that withData has added.
func withPolicy(policy v1alpha1.DeletionPolicy) func(*v1alpha1.App) {
	return func(app *v1alpha1.App) { app.Spec.Volumes[0].Claim.DeletionPolicy = policy }
}

// deleting marks an App as being deleted.
func deleting(app *v1alpha1.App) { app.DeletionTimestamp = new(metav1.Now()) }

// doomedFixture returns a fixture with a Ready App whose claim has the deletionPolicy Delete.
func doomedFixture(t *testing.T) fixture {
	t.Helper()
	return readyFixture(t, withData("1Gi"), withPolicy(v1alpha1.DeletionDelete))
}

func TestOnlyAppThatDeletesItsClaimHasFinalizer(t *testing.T) {
	controllertest.Equal(t, "finalizers with Retain", nil, dataFixture(t).Object().Finalizers)
	f := doomedFixture(t)
	controllertest.Equal(t, "finalizers with Delete", []string{finalizerName}, f.Object().Finalizers)
	f.Change(withPolicy(v1alpha1.DeletionRetain))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "finalizers after a change to Retain", 0, len(f.Object().Finalizers))
}

func TestDeletionPolicyOfClaim(t *testing.T) {
	for name, c := range map[string]struct {
		app    func(*v1alpha1.App)
		before func(fixture) // changes that the caches observe
		after  func(fixture) // changes that the caches do not observe
		writes []string
	}{
		"the claim is deleted": {writes: []string{deleteClaim, patchApp}},
		"the claim stays if the policy has become Retain": {
			app: withPolicy(v1alpha1.DeletionRetain), writes: []string{patchApp},
		},
		"the claim stays if the policy on the API server is Retain": {
			after: func(f fixture) { f.Change(withPolicy(v1alpha1.DeletionRetain)) }, writes: []string{patchApp},
		},
		"the claim stays if its volume was removed": {
			app: func(app *v1alpha1.App) { app.Spec.Volumes = nil }, writes: []string{patchApp},
		},
		"the claim stays if the children are being orphaned": {
			app: func(app *v1alpha1.App) {
				app.Finalizers = append(app.Finalizers, metav1.FinalizerOrphanDependents)
			}, writes: []string{patchApp},
		},
		"the claim stays if the children were orphaned": {
			before: func(f fixture) {
				f.changeDeployment(func(d *appsv1.Deployment) { d.OwnerReferences = nil })
			}, writes: []string{patchApp},
		},
		"the claim stays if the Deployment belongs to somebody else": {
			before: func(f fixture) {
				f.changeDeployment(func(d *appsv1.Deployment) { d.OwnerReferences[0].UID, d.Annotations = "other", nil })
			}, writes: []string{patchApp},
		},
		"the claim of a previous App stays if this App has not used it": {
			before: func(f fixture) {
				kindtest.Change(f.Cluster, "default", "web-data", func(claim *corev1.PersistentVolumeClaim) {
					claim.Annotations[children.UsedByAnnotation] = "previous-app-uid"
				})
			}, writes: []string{patchApp},
		},
		"the claim is deleted after the Deployment": {
			before: func(f fixture) { f.Remove(f.deployment()) }, writes: []string{deleteClaim, patchApp},
		},
		"a missing claim needs no deletion": {
			before: func(f fixture) { f.Remove(f.claim()) }, writes: []string{patchApp},
		},
		"the claim of a new App stays": {
			after: func(f fixture) {
				f.Remove(f.Object())
				f.Store(example(withData("1Gi"), withPolicy(v1alpha1.DeletionDelete), func(app *v1alpha1.App) { app.UID = "new" }))
			}, writes: []string{patchApp},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := doomedFixture(t)
			f.Change(deleting)
			if c.app != nil {
				f.Change(c.app)
			}
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
		})
	}
}

func TestFailedReadKeepsClaim(t *testing.T) {
	noResponse, notFound := errors.New("no response"), apierrors.NewNotFound(schema.GroupResource{}, "web")
	for _, resource := range []string{"apps", "deployments", "persistentvolumeclaims"} {
		for name, err := range map[string]error{"fails": noResponse, "does not find what the cache has": notFound} {
			t.Run("the read of "+resource+" "+name, func(t *testing.T) {
				f := doomedFixture(t)
				f.Change(deleting)
				f.Journal.FailNext("get", resource, err)
				if r := f.Reconcile(); r.Err == nil {
					t.Error("the reconcile succeeded")
				}
				controllertest.Equal(t, "finalizers", []string{finalizerName}, f.Object().Finalizers)
				if f.claim() == nil {
					t.Error("the claim was deleted")
				}
			})
		}
	}
}

func TestFailedDeletionOfClaimIsReported(t *testing.T) {
	f := doomedFixture(t)
	f.Change(deleting)
	const resource = "persistentvolumeclaims"
	f.Journal.FailNext("delete", resource, apierrors.NewForbidden(corev1.Resource(resource), "web-data", errors.New("no")))
	controllertest.Equal(t, "writes", []string{deleteClaim, updateStatus}, f.Reconcile().Writes)
	const advice = "deleting the volumes of App default/web (to keep a volume, set its deletionPolicy to Retain): "
	if !strings.Contains(f.ready(), advice) {
		t.Errorf("the condition Ready is %s", f.ready())
	}
	controllertest.Equal(t, "phase", v1alpha1.AppFailed, f.Object().Status.Phase)
}
