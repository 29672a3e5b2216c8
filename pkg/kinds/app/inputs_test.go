package app

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestInputsAreSecretsAndConfigMapsOfPods(t *testing.T) {
	optional := ptr.To(true)
	app := example(func(app *v1alpha1.App) {
		app.Spec.Env = []corev1.EnvVar{
			{
				Name: "A", ValueFrom: &corev1.EnvVarSource{
					SecretKeyRef: &corev1.SecretKeySelector{
						LocalObjectReference: corev1.LocalObjectReference{Name: "twice"}, Optional: optional,
					},
				},
			},
			{
				Name: "B", ValueFrom: &corev1.EnvVarSource{
					ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}},
				},
			},
			{Name: "C", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		}
		app.Spec.EnvFrom = []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "twice"}}},
			{
				ConfigMapRef: &corev1.ConfigMapEnvSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "maybe"}, Optional: optional,
				},
			},
		}
		app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "db"}
		app.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		app.Spec.Ingress = &v1alpha1.AppIngress{Host: "a.b", TLSSecretName: "tls"}
	})
	want := []input{
		{kind: kindConfigMap, name: "maybe", optional: true}, {kind: kindConfigMap, name: "settings", optional: false},
		{kind: kindSecret, name: "db-credentials", optional: false}, {kind: kindSecret, name: "twice", optional: false},
	}
	controllertest.Equal(t, "inputs", want, inputsOf(app), cmp.AllowUnexported(input{}))
	if keys := inputKeys(app); keys[2] != "default/Secret/db-credentials" {
		t.Errorf("the index has %v", keys)
	}
}

func TestDigestDependsOnContentNotVersion(t *testing.T) {
	before, labelled, changed, again := secret("s"), secret("s"), secret("s"), secret("s")
	labelled.ResourceVersion = "6"
	changed.Data["uri"] = []byte("else")
	again.UID = "another"
	digest := func(s *corev1.Secret) string { return digestOf(s, s.Data) }
	if digest(before) != digest(labelled) || digest(before) == digest(changed) {
		t.Error("a digest does not tell the content")
	}
	if digest(before) == digest(again) {
		t.Error("a digest is not keyed: its content could be guessed at")
	}
	in := contents{"Secret/s": {versionOf(before), digest(before)}}
	annotated := func(value string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{inputsAnnotation: value}}}
	}
	controllertest.Equal(t, "contents that were written and read", in, contentsIn(annotated(in.String())))
	controllertest.Equal(t, "contents that somebody has broken", nil, contentsIn(annotated("{")))
	newer := contents{"Secret/s": {versionOf(labelled), digest(labelled)}}
	if in.digest() != newer.digest() || in.String() == newer.String() {
		t.Error("the digest of all contents tells versions")
	}
	if strings.Contains(in.String(), "canary") {
		t.Error("contents hold data")
	}
}
