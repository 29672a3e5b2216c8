package faults

import (
	"strings"
	"testing"
)

// A UID must not contain the namespace of its run by chance, because stableName replaces the namespace in all texts.
func TestNamespaceOfRunIsNeverPartOfUID(t *testing.T) {
	for _, run := range []int64{1, 1937, 99999} {
		if namespace := namespaceOf(run); strings.Trim(namespace, "0123456789abcdef-") == "" {
			t.Errorf("namespaceOf(%d) = %s, which can be part of a UID", run, namespace)
		}
	}
}
