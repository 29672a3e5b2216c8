package roots

import (
	"testing"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestRootsAreProvidedWithoutSystemRoots(t *testing.T) {
	controllertest.WithoutSystemRoots(t, func(t *testing.T) {
		for range 2 {
			controllertest.ErrorContains(t, "", Provide())
		}
		controllertest.Equal(t, "has roots", true, controllertest.HasRoots())
	})
}
