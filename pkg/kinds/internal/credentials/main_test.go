package credentials_test

import (
	"testing"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

func TestMain(m *testing.M) { controllertest.Main(m, credentials.Messages) }
