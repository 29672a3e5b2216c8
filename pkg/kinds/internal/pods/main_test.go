package pods_test

import (
	"testing"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/pods"
)

func TestMain(m *testing.M) { controllertest.Main(m, pods.Messages) }
