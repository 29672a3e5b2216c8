package externaldatabase

import (
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

func TestSecretHasNoLabelOfExternalDatabase(t *testing.T) {
	f := newFixture(t, current(), example(func(db *v1alpha1.ExternalDatabase) { kindtest.Track(db) }), connectionSecret())
	f.Reconcile()
	if f.secret() == nil {
		t.Fatal("the Secret was not created")
	}
	controllertest.Equal(t, "labels and annotations of the ExternalDatabase on other objects", nil, f.Tracked())
}

func TestSecretHasMetadataOfSpec(t *testing.T) {
	db := example(func(db *v1alpha1.ExternalDatabase) { db.Spec.Metadata = kindtest.OfChildren })
	f := newFixture(t, current(), db, connectionSecret())
	f.Reconcile()
	controllertest.Equal(t, "objects without the metadata", nil, f.Without(kindtest.OfChildren))
	controllertest.Equal(t, "label", "4711", f.secret().Labels["cost-centre"])
}
