package platform

import (
	"testing"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

func TestNoChildHasLabelOfPlatform(t *testing.T) {
	platform := example(app("web"), database("db"), externalDatabase("ext"), at("job"))
	kindtest.Track(platform)
	f := newFixture(t, platform)
	f.settle()
	if f.app("web") == nil {
		t.Fatal("the App was not created")
	}
	controllertest.Equal(t, "labels and annotations of the Platform on other objects", nil, f.Tracked())
}
