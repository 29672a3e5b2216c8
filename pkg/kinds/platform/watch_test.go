package platform

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// TestNew runs the controller, which gets events of children and of objects with the names of children. No
// periodic check happens.
func TestNew(t *testing.T) {
	platform := example(app("web", "db"), database("db"))
	platform.Finalizers = nil
	foreign := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "shop-db"}}
	cluster := kindtest.NewCluster(t, platform, foreign)
	c, err := New(cluster.Cluster, cluster.Runtime(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Run(t, c, 1, cluster.Kinds, cluster.All)
	untilPhase := func(phase v1alpha1.PlatformPhase) {
		t.Helper()
		cluster.Eventually("phase "+string(phase), func() bool {
			return kindtest.Get[*v1alpha1.Platform](cluster, "", "shop").Status.Phase == phase
		})
	}
	untilPhase(v1alpha1.PlatformFailed)
	if err := cluster.Metadata.Tracker().
		Add(kindtest.Metadata(t, kindtest.Get[*corev1.Namespace](cluster, "", "shops"))); err != nil {
		t.Fatal(err)
	}
	cluster.Remove(foreign)
	untilPhase(v1alpha1.PlatformDeploying)
	kindtest.Change(cluster, "shops", "shop-db", func(db *v1alpha1.Database) {
		db.Status.ObservedGeneration = db.Generation
		conditions.True(&db.Status.Conditions, conditions.Ready, "Available", "")
	})
	cluster.Eventually("the App", func() bool { return kindtest.Get[*v1alpha1.App](cluster, "shops", "shop-web") != nil })
}

func TestChildrenOfListsComponentsOfSpecAndStatus(t *testing.T) {
	platform := example(app("web"), database("db"))
	controllertest.Equal(t, "children of components in the spec", []string{
		"App/shops/shop-web", "Database/shops/shop-db",
	}, childrenOf(platform))
	platform.Spec.Components, platform.Status.Components = nil, []v1alpha1.PlatformComponentStatus{
		{Name: "old", Kind: "App"},
	}
	controllertest.Equal(t, "children of components in the status", []string{"App/shops/shop-old"}, childrenOf(platform))
}
