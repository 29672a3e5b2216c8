package budget

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOwnersOmitsInvalidReferences(t *testing.T) {
	ordinary := metav1.OwnerReference{
		APIVersion: "windlass.dev/v1alpha1", Kind: "App", Name: "web", UID: "6e6a2c49-4a4b-4c4d-8e8f-909192939495",
	}
	forged := ordinary
	forged.Name = strings.Repeat("x", 1<<20)
	if got := Owners([]metav1.OwnerReference{forged, ordinary}); len(got) != 1 || got[0] != ordinary {
		t.Errorf("%d owners are cached", len(got))
	}
	if got := Owners(make([]metav1.OwnerReference, 100)); len(got) != mostOwners {
		t.Errorf("of 100 owners %d are cached", len(got))
	}
	if Owners(nil) != nil {
		t.Error("an object without owners has some")
	}
}
