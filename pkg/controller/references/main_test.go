package references_test

import (
	"testing"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/controller/references"
)

func TestMain(m *testing.M) { controllertest.Main(m, references.Messages) }
