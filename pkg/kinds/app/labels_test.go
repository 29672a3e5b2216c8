package app

import (
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// withoutDatabase changes an App so that it has all children, and refers to no database.
func withoutDatabase(app *v1alpha1.App) {
	withAllChildren(app)
	app.Spec.DatabaseRef = nil
}

// TestNoChildHasLabelOfApp covers all children, the Pod of beforeRollout and its ConfigMap.
func TestNoChildHasLabelOfApp(t *testing.T) {
	f := rolledOutFixture(t, withoutDatabase, func(app *v1alpha1.App) { kindtest.Track(app) })
	controllertest.Equal(t, "labels and annotations of the App on other objects", nil, f.Tracked())
}

func TestChildrenHaveLabelsOfPlatform(t *testing.T) {
	f := rolledOutFixture(t, withoutDatabase, func(app *v1alpha1.App) { kindtest.MakeComponent(app, "shop", "web") })
	d, pod := f.deployment(), f.runPod()
	for what, labels := range map[string]map[string]string{
		"Deployment": d.Labels, "template": d.Spec.Template.Labels, "Pod of beforeRollout": pod.Labels,
	} {
		controllertest.Equal(t, what, "shop web",
			labels["app.kubernetes.io/part-of"]+" "+labels["app.kubernetes.io/component"])
	}
}
