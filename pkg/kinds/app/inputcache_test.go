package app

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

func TestOptionalSecretMissingInCacheIsReadBeforePodsAreReplaced(t *testing.T) {
	for name, deleted := range map[string]bool{
		"a Secret whose label changes is in no cache, and the Pods stay":      false,
		"a deleted Secret is read once, and the Pods are replaced without it": true,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(func(app *v1alpha1.App) {
				app.Spec.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "maybe"}, Optional: ptr.To(true),
				}}}
			}), secret("maybe"))
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			before, reads := f.deployment(), f.secretReads()
			if deleted {
				f.Remove(secret("maybe"))
			}
			for range 2 {
				f.Observe()
				err := f.Others.ForResource(corev1.SchemeGroupVersion.WithResource("secrets")).Informer().GetStore().
					Replace(nil, "999")
				if err != nil {
					t.Fatal(err)
				}
				controllertest.ErrorContains(t, "", f.ReconcileAsCached().Err)
				if deleted {
					controllertest.Equal(t, "reads", 1, f.secretReads()-reads)
				}
			}
			replaced := before.Annotations[inputsAnnotation] != f.deployment().Annotations[inputsAnnotation]
			controllertest.Equal(t, "the Pods are replaced", deleted, replaced)
			if !deleted {
				controllertest.Equal(t, "Deployment", before, f.deployment())
			}
		})
	}
}

func TestSecretWhoseMetadataChangesIsReadOnceAndCausesNoWrite(t *testing.T) {
	f := newFixture(t, example(withDatabase), secret("db-credentials"))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	before, reads := f.deployment(), f.secretReads()
	kindtest.Change(f.Cluster, "default", "db-credentials", func(s *corev1.Secret) {
		s.Annotations = map[string]string{"touched": "yes"}
	})
	f.Observe()
	for range 3 {
		controllertest.ErrorContains(t, "", f.ReconcileAsCached().Err)
	}
	controllertest.Equal(t, "reads", 1, f.secretReads()-reads)
	controllertest.Equal(t, "Deployment", before, f.deployment())
}
