package platform

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// forge creates objects with the owner reference and the record of a child of the Platform, as users who
// may write in its namespace can.
func (w *world) forge(n int) {
	w.t.Helper()
	said := w.platform().Status.Components
	for i := range n {
		w.has(app(fmt.Sprintf("forged-%d", i)), "ready")
	}
	w.change(func(p *v1alpha1.Platform) { p.Status.Components = said })
}

func TestForgedChildrenAreNobodys(t *testing.T) {
	w := newWorld(t, example(app("web")))
	w.house()
	w.has(app("web"), "ready")
	w.forge(20)
	writes, err := w.pass()
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "writes", []string{status}, writes)
	controllertest.Equal(t, "components", []string{"web App Managed Available"}, says(w.platform()))
	w.change(func(p *v1alpha1.Platform) { p.DeletionTimestamp = ptr.To(metav1.Now()) })
	writes, _ = w.pass()
	controllertest.Equal(t, "writes of the deletion", []string{"delete apps shops/shop-web", status}, writes)
	writes, err = w.pass()
	controllertest.Equal(t, "writes once the components are gone", []string{"patch platforms shop"}, writes)
	if err != nil {
		t.Error(err)
	}
}

// TestTheStatusListsAComponentBeforeItsChildIsMade matters if the process dies between the two, or the
// status write fails: if the spec changes then, the child must still be known.
func TestTheStatusListsAComponentBeforeItsChildIsMade(t *testing.T) {
	w := newWorld(t, example(app("web"), database("db")))
	w.house()
	w.has(database("db"), "ready")
	w.change(func(p *v1alpha1.Platform) { p.Status.Components = nil })
	writes, err := w.pass()
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "writes", []string{status}, writes)
	controllertest.Equal(t, "components", []string{"web App Managed Waiting NotObserved", "db Database Managed Available"}, says(w.platform()))
	writes, err = w.pass()
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "writes of the next pass", []string{"create apps shops/shop-web", status}, writes)
}

// TestAComponentOffTheListIsForgottenOnlyOnceItIsSurelyGone has a child that no cache has yet. The
// response of its creation was an error.
func TestAComponentOffTheListIsForgottenOnlyOnceItIsSurelyGone(t *testing.T) {
	w := newWorld(t, example())
	w.house()
	w.has(app("web"), "ready")
	w.fill()
	if err := w.cluster.Own.Windlass().V1alpha1().Apps().Informer().GetStore().Replace(nil, ""); err != nil {
		t.Fatal(err)
	}
	before := len(w.journal.Writes())
	if _, err := w.pipeline.Sync(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "writes", []string{"delete apps shops/shop-web", status}, w.journal.Writes()[before:])
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "components", nil, says(w.platform()))
}
