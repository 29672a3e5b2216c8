package budget

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits of an owner reference, of which the API server bounds nothing: those of the names, UIDs,
// kinds and API versions that objects can have, and how many references are cached.
const (
	longestName    = 253
	longestUID     = 64
	longestKind    = 63
	longestVersion = 317
	mostOwners     = 64
)

// Owners returns the owner references of an object without those that name nothing that can be.
func Owners(references []metav1.OwnerReference) []metav1.OwnerReference {
	possible := slices.DeleteFunc(references, func(r metav1.OwnerReference) bool {
		return len(r.Name) > longestName || len(r.UID) > longestUID || len(r.Kind) > longestKind || len(r.APIVersion) > longestVersion
	})
	return possible[:min(len(possible), mostOwners)]
}
