package rollout_test

import (
	"testing"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/controller/rollout"
)

func TestMain(m *testing.M) { controllertest.Main(m, rollout.Messages) }
