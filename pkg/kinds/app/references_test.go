package app

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// ours returns a Secret with the operator's label.
func ours(name string) *corev1.Secret {
	s := secret(name)
	s.Labels = map[string]string{controller.ManagedByLabel: controller.ManagedByWindlass}
	return s
}

// reads returns how often the API server was asked for a Secret.
func (w *world) reads() int { return controllertest.Reads(w.kube.Actions(), "secrets") }

func TestPodsGoOnWithoutASecretOnlyOnceItIsGone(t *testing.T) {
	for name, gone := range map[string]bool{
		"one whose label changes is in no cache, and they stay":      false,
		"one that is gone is asked for once, and they do without it": true,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, example(func(app *v1alpha1.App) {
				app.Spec.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "maybe"}, Optional: ptr.To(true),
				}}}
			}), secret("maybe"))
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
			before, reads := w.deployment(), w.reads()
			if gone {
				if err := w.kube.CoreV1().Secrets("default").Delete(t.Context(), "maybe", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				pipeline := w.fill()
				if err := w.others().GetStore().Replace(nil, ""); err != nil {
					t.Fatal(err)
				}
				if _, err := pipeline.Sync(t.Context(), theApp); err != nil {
					t.Fatal(err)
				}
				if gone {
					controllertest.Equal(t, "reads", 1, w.reads()-reads)
				}
			}
			rolled := before.Annotations[inputsAnnotation] != w.deployment().Annotations[inputsAnnotation]
			controllertest.Equal(t, "the Pods are made anew", gone, rolled)
			if !gone {
				controllertest.Equal(t, "Deployment", before, w.deployment())
			}
		})
	}
}

func TestAChangeOfASecretsMetadataIsReadAndNotWritten(t *testing.T) {
	w := newWorld(t, example(func(app *v1alpha1.App) { app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "db"} }), secret("db-credentials"))
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	before, reads := w.deployment(), w.reads()
	touched := secret("db-credentials")
	touched.ResourceVersion, touched.Annotations = "6", map[string]string{"touched": "yes"}
	if _, err := w.kube.CoreV1().Secrets("default").Update(t.Context(), touched, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	pipeline := w.fill()
	for range 3 {
		if _, err := pipeline.Sync(t.Context(), theApp); err != nil {
			t.Fatal(err)
		}
	}
	controllertest.Equal(t, "reads", 1, w.reads()-reads)
	controllertest.Equal(t, "Deployment", before, w.deployment())
}
