package platform

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// forge makes objects that say that they are children of the Platform, as whoever may write
// in its namespace can: with its reference, and with a record like that of a child.
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

// TestTheStatusListsAComponentBeforeItsChildIsMade is of a process that dies between the two,
// or whose status write fails: if the spec changes then, the child must be known still.
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

// TestAComponentOffTheListIsForgottenOnlyOnceItIsSurelyGone is of a child that was made by a
// request that was answered with an error, and that no cache has yet.
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
