package app

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

func TestNoOpReconcileTakesFewAllocations(t *testing.T) {
	f := readyFixture(t)
	for range 2 {
		if r := f.ReconcileAsCached(); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	const limit = 20
	if n := testing.AllocsPerRun(100, func() { _, _ = f.Pipeline.Sync(t.Context(), f.Key) }); n > limit {
		t.Errorf("a no-op reconcile took %.0f allocations, more than %d", n, limit)
	}
}

// TestReconcileRecreatesChildThatIsDeletedTwice deletes a child twice, while the cache lacks the child.
func TestReconcileRecreatesChildThatIsDeletedTwice(t *testing.T) {
	f := readyFixture(t)
	if r := f.ReconcileAsCached(); r.Err != nil {
		t.Fatal(r.Err)
	}
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

func TestInputsIncludeReferencedSecret(t *testing.T) {
	f := readyFixture(t, withAllChildren)
	before, known := f.inputs().Sum()
	controllertest.Equal(t, "known", true, known)
	kindtest.Change(f.Cluster, "default", "db-credentials", func(s *corev1.Secret) { s.Annotations = map[string]string{"touched": "yes"} })
	f.Observe()
	if after, _ := f.inputs().Sum(); after == before {
		t.Error("the inputs are the same although the Secret has changed")
	}
}

// TestInputsAreUnknownWhileChildIsMissing checks that no no-op is remembered while a child is missing from
// the cache. The child can exist during a reconcile that does not see it, and be deleted before the next
// reconcile.
func TestInputsAreUnknownWhileChildIsMissing(t *testing.T) {
	for i, kind := range []string{"ConfigMap", "Deployment", "Service", "Ingress", "HorizontalPodAutoscaler", "PodDisruptionBudget"} {
		t.Run(kind, func(t *testing.T) {
			f := readyFixture(t, withAllChildren)
			_, known := f.inputs().Sum()
			controllertest.Equal(t, "known with the child", true, known)
			if err := ownedBy(f.Cluster.Cluster, nil)[i+1].Informer().GetStore().Replace(nil, "999"); err != nil {
				t.Fatal(err)
			}
			_, known = f.inputs().Sum()
			controllertest.Equal(t, "known without the child", false, known)
		})
	}
}

// inputs returns the inputs of a reconcile of the cached App.
func (f fixture) inputs() *controller.Versions {
	f.T.Helper()
	app, err := f.Pipeline.Get(f.Key)
	if err != nil {
		f.T.Fatal(err)
	}
	seen := controller.NewVersions()
	f.Pipeline.Reconciler.(controller.Deterministic[*v1alpha1.App]).Inputs(app, seen)
	return seen
}

func BenchmarkNoOpReconcile(b *testing.B) {
	for name, forget := range map[string]bool{"remembered": false, "compared": true} {
		b.Run(name, func(b *testing.B) {
			f := readyFixture(b)
			b.ReportAllocs()
			for b.Loop() {
				if forget {
					f.Pipeline.Tracker.Forget(f.Key)
				}
				if _, err := f.Pipeline.Sync(b.Context(), f.Key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
