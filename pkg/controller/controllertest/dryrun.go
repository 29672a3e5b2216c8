package controllertest

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

// isDryRun reports whether an action creates or patches an object with dryRun=All. The trackers of client-go ignore
// dryRun, and would store the result.
func isDryRun(action clienttesting.Action) bool {
	switch a := action.(type) {
	case clienttesting.CreateActionImpl:
		return len(a.CreateOptions.DryRun) > 0
	case clienttesting.PatchActionImpl:
		return len(a.PatchOptions.DryRun) > 0
	}
	return false
}

// absent returns AlreadyExists if tracker has the object that an action creates.
func absent(tracker clienttesting.ObjectTracker, a clienttesting.CreateActionImpl, object runtime.Object) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	_, err = tracker.Get(a.Resource, a.Namespace, accessor.GetName())
	if err == nil {
		return apierrors.NewAlreadyExists(a.Resource.GroupResource(), accessor.GetName())
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// dryRun is a tracker that does not store the result of a patch.
type dryRun struct{ clienttesting.ObjectTracker }

// Update implements clienttesting.ObjectTracker.
func (dryRun) Update(schema.GroupVersionResource, runtime.Object, string, ...metav1.UpdateOptions) error {
	return nil
}

// Patch implements clienttesting.ObjectTracker.
func (dryRun) Patch(schema.GroupVersionResource, runtime.Object, string, ...metav1.PatchOptions) error {
	return nil
}
