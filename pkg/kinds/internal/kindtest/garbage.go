package kindtest

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// CollectGarbage does the work of the garbage collector for objects that are being deleted: it removes the
// finalizers foregroundDeletion and orphan, as if the objects had no dependents.
func (c *Cluster) CollectGarbage() {
	c.T.Helper()
	for _, kind := range slices.Concat(builtIn, own) {
		for _, object := range c.list(kind) {
			c.collect(object.DeepCopyObject())
		}
	}
}

// collect removes the finalizers of the garbage collector from an object that is being deleted.
func (c *Cluster) collect(object runtime.Object) {
	c.T.Helper()
	accessor, err := meta.Accessor(object)
	if err != nil {
		c.T.Fatal(err)
	}
	left := slices.DeleteFunc(slices.Clone(accessor.GetFinalizers()), func(name string) bool {
		return name == metav1.FinalizerDeleteDependents || name == metav1.FinalizerOrphanDependents
	})
	if accessor.GetDeletionTimestamp() == nil || len(left) == len(accessor.GetFinalizers()) {
		return
	}
	if len(left) == 0 {
		c.Remove(object)
		return
	}
	accessor.SetFinalizers(left)
	c.Store(object)
}
