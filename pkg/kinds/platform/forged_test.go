package platform

import (
	"fmt"
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// TestReconcileIgnoresForgedChildren has objects with the owner reference and the record of a child of the
// Platform, as users who may write in its namespace can create them.
func TestReconcileIgnoresForgedChildren(t *testing.T) {
	f := newFixture(t, example(app("web")), namespace())
	f.addChild(app("web"), ready)
	for i := range 20 {
		f.storeChild(app(fmt.Sprintf("forged-%d", i)), ready)
	}
	r := f.Reconcile()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	controllertest.Equal(t, "writes", []string{updateStatus}, r.Writes)
	f.checkComponents(reported("web", "App", v1alpha1.Managed, "Ready", "Available"))
	f.delete()
	controllertest.Equal(t, "writes of the deletion", []string{
		"delete apps shops/shop-web", updateStatus,
	}, f.Reconcile().Writes)
	f.CollectGarbage()
	r = f.Reconcile()
	if r.Err != nil {
		t.Error(r.Err)
	}
	controllertest.Equal(t, "writes without the component", []string{"patch platforms shop"}, r.Writes)
	controllertest.Equal(t, "the Platform is gone", true, f.Object() == nil)
}

// TestStatusListsComponentBeforeChildIsCreated checks the order of the writes. If the process created a
// child, died before it wrote the status, and the spec changed, the operator would not know the child. The conflict of
// another component does not delay the creation.
func TestStatusListsComponentBeforeChildIsCreated(t *testing.T) {
	f := newFixture(t, example(app("web"), database("db"), app("docs")), namespace())
	f.addChild(database("db"), ready)
	f.addChild(app("docs"), foreign)
	f.Change(func(p *v1alpha1.Platform) { p.Status.Components = p.Status.Components[1:] })
	r := f.Reconcile()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	controllertest.Equal(t, "writes", []string{updateStatus}, r.Writes)
	controllertest.Equal(t, "requeue after", announcedRetry, r.Result.RequeueAfter)
	f.checkComponents(reported("web", "App", v1alpha1.Managed, "Waiting", reasonNew),
		reported("db", "Database", v1alpha1.Managed, "Ready", "Available"),
		reported("docs", "App", v1alpha1.Managed, "Waiting", "NameConflict"))
	controllertest.Equal(t, "writes of the next reconcile", []string{"create apps shops/shop-web", updateStatus},
		f.Reconcile().Writes)
}

// TestReconcileDeletesDroppedComponentMissingFromCache has a child that only the API server has, as after a
// creation whose response was an error.
func TestReconcileDeletesDroppedComponentMissingFromCache(t *testing.T) {
	f := newFixture(t, example(), namespace())
	f.addChild(app("web"), ready)
	f.Observe()
	if err := f.Kinds.Windlass().V1alpha1().Apps().Informer().GetStore().Replace(nil, "999"); err != nil {
		t.Fatal(err)
	}
	r := f.ReconcileAsCached()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	controllertest.Equal(t, "writes", []string{"delete apps shops/shop-web", updateStatus}, r.Writes)
	f.CollectGarbage()
	if r := f.Reconcile(); r.Err != nil {
		t.Fatal(r.Err)
	}
	f.checkComponents()
}
