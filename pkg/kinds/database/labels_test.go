package database

import (
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// ownLabels are all labels that the operator sets on a claim.
var ownLabels = map[string]string{"app.kubernetes.io/name": "database", "app.kubernetes.io/managed-by": "windlass"}

func TestNoChildHasLabelOfDatabase(t *testing.T) {
	f := newFixture(t, example(func(db *v1alpha1.Database) { kindtest.Track(db) }))
	r := f.Reconcile()
	controllertest.ErrorContains(t, "", r.Err)
	controllertest.Equal(t, "labels and annotations of the Database on other objects", nil, f.Tracked())
	controllertest.Equal(t, "labels of the claim", ownLabels, f.claim().Labels)
}

func TestChildrenHaveMetadataOfSpec(t *testing.T) {
	f := newFixture(t, example(func(db *v1alpha1.Database) { db.Spec.Metadata = kindtest.OfChildren }))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "children without the metadata", nil, f.Without(kindtest.OfChildren))
	controllertest.Equal(t, "label of the claim", "4711", f.claim().Labels["cost-centre"])
}
