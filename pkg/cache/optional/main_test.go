package optional

import (
	"testing"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestMain(m *testing.M) { controllertest.Main(m) }
