package budget

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits on owner references, which the API server does not bound: the longest name, UID, kind and API version
// that an object can have, and the number of references that are cached.
const (
	longestName    = 253
	longestUID     = 64
	longestKind    = 63
	longestVersion = 317
	mostOwners     = 64
)

// Owners removes references that are too long for any existing object, and returns at most mostOwners of
// the rest. It modifies references.
func Owners(references []metav1.OwnerReference) []metav1.OwnerReference {
	possible := slices.DeleteFunc(references, func(r metav1.OwnerReference) bool {
		return len(r.Name) > longestName || len(r.UID) > longestUID || len(r.Kind) > longestKind ||
			len(r.APIVersion) > longestVersion
	})
	return possible[:min(len(possible), mostOwners)]
}
