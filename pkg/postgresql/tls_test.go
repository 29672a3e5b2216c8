package postgresql

import (
	"testing"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestServerIsVerifiedWithoutSystemRoots(t *testing.T) {
	controllertest.WithoutSystemRoots(t, func(t *testing.T) {
		_, err := Settings{Host: "db.example.com", Mode: VerifyFull}.tls()
		controllertest.ErrorContains(t, "", err)
		controllertest.Equal(t, "has roots", true, controllertest.HasRoots())
	})
}
