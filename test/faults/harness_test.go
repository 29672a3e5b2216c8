package faults

import (
	"strings"
	"testing"
)

func TestAScopeIsInNoUID(t *testing.T) {
	for _, run := range []int64{1, 1937, 99999} {
		if scope := scopeOf(run); strings.Trim(scope, "0123456789abcdef-") == "" {
			t.Errorf("%s may be in one, which would then be taken for what is named for the run", scope)
		}
	}
}
