package platform

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// TestNew runs the controller, which gets events of children and of objects with the names of children.
func TestNew(t *testing.T) {
	platform := example(app("web", "db"), database("db"))
	platform.Finalizers = nil
	w := newBareWorld(t, platform)
	c, err := New(w.cluster, w.runtime(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := w.windlass.WindlassV1alpha1().Databases("shops").Create(t.Context(),
		&v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "shop-db", UID: "their-uid"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Run(t, c, 1, w.cluster.Own, w.cluster.All)
	until := func(what string, holds func() bool) {
		t.Helper()
		err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return holds(), nil })
		if err != nil {
			t.Fatalf("waiting for %s: %v; writes: %v", what, err, w.journal.Writes())
		}
	}
	in := func(phase v1alpha1.PlatformPhase) func() bool {
		return func() bool { return w.platform().Status.Phase == phase }
	}
	until("a conflict", in(v1alpha1.PlatformFailed))
	if err := w.windlass.WindlassV1alpha1().Databases("shops").Delete(t.Context(), theirs.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until("the name to be free", in(v1alpha1.PlatformDeploying))
	db, err := w.windlass.WindlassV1alpha1().Databases("shops").Get(t.Context(), "shop-db", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conditions.True(&db.Status.Conditions, conditions.Ready, "Available", "")
	if _, err := w.windlass.WindlassV1alpha1().Databases("shops").UpdateStatus(t.Context(), db, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until("the App", func() bool {
		_, err := w.windlass.WindlassV1alpha1().Apps("shops").Get(t.Context(), "shop-web", metav1.GetOptions{})
		return err == nil
	})
}

func TestPlatformsAreFound(t *testing.T) {
	platform := example(app("web"), database("db"))
	controllertest.Equal(t, "by their children", []string{"App/shops/shop-web", "Database/shops/shop-db"}, childrenOf(platform))
	platform.Spec.Components, platform.Status.Components = nil, []v1alpha1.PlatformComponentStatus{{Name: "old", Kind: "App"}}
	controllertest.Equal(t, "by those that only the status lists", []string{"App/shops/shop-old"}, childrenOf(platform))
}

func TestAnObjectOfAnotherKindIsNoChild(t *testing.T) {
	w := newWorld(t, example())
	k := w.pipeline.Reconciler.(*reconciler).kinds.named("App")
	other := &v1alpha1.Database{}
	if err := k.remove(t.Context(), ownerOfExample(), other); err == nil {
		t.Error("it was removed")
	}
	if _, err := k.release(t.Context(), ownerOfExample(), other); err == nil {
		t.Error("it was let go")
	}
	controllertest.Equal(t, "phase", "", k.phase(other))
}
