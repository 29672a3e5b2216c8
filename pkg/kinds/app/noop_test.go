package app

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

func TestNoOpReconcileTakesFewAllocations(t *testing.T) {
	f := readyFixture(t)
	for range 2 {
		controllertest.ErrorContains(t, "", f.ReconcileAsCached().Err)
	}
	const limit = 2100
	if n := testing.AllocsPerRun(100, func() { _, _ = f.Pipeline.Sync(t.Context(), f.Key) }); n > limit {
		t.Errorf("a no-op reconcile took %.0f allocations, more than %d", n, limit)
	}
}

// TestReconcileRecreatesChildThatIsDeletedTwice deletes a child twice, while the cache lacks the child.
func TestReconcileRecreatesChildThatIsDeletedTwice(t *testing.T) {
	f := readyFixture(t)
	controllertest.ErrorContains(t, "", f.ReconcileAsCached().Err)
	if err := f.Services().Informer.GetStore().Replace(nil, "999"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f.Remove(kindtest.Get[*corev1.Service](f.Cluster, "default", "web"))
		r := f.ReconcileAsCached()
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		controllertest.Equal(t, "writes", []string{createService}, r.Writes)
	}
}
