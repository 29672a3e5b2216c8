package app

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

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

// TestChildrenHaveMetadataOfSpec covers all children, the claim of a volume, and the Pod of beforeRollout.
func TestChildrenHaveMetadataOfSpec(t *testing.T) {
	f := rolledOutFixture(t, withoutDatabase, withData("1Gi"), func(app *v1alpha1.App) {
		app.Spec.Metadata = kindtest.OfChildren
	})
	controllertest.Equal(t, "children without the metadata", nil, f.Without(kindtest.OfChildren))
	controllertest.Equal(t, "metadata of the Pods", "", f.deployment().Spec.Template.Labels["cost-centre"])
	f.Change(func(app *v1alpha1.App) {
		app.Spec.Metadata.Labels = map[string]v1alpha1.LabelValue{"cost-centre": "4712"}
	})
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "label after a change", "4712", f.deployment().Labels["cost-centre"])
	f.Change(func(app *v1alpha1.App) { app.Spec.Metadata = v1alpha1.ChildMetadata{} })
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "label after its removal", "", f.deployment().Labels["cost-centre"])
}

func TestAnnotationOfServiceReplacesThatOfMetadata(t *testing.T) {
	f := newFixture(t, example(func(app *v1alpha1.App) {
		app.Spec.Metadata.Annotations = map[string]v1alpha1.AnnotationValue{"example.com/owner": "storefront"}
		app.Spec.Service = &v1alpha1.AppService{Annotations: map[string]string{"example.com/owner": "network"}}
	}))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	service := kindtest.Get[*corev1.Service](f.Cluster, "default", "web")
	controllertest.Equal(t, "annotation", "network", service.Annotations["example.com/owner"])
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
