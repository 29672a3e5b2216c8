package app

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestReferencesListSecretsAndConfigMapsOfPods(t *testing.T) {
	optional := ptr.To(true)
	app := example(func(app *v1alpha1.App) {
		app.Spec.Env = []corev1.EnvVar{
			{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "twice"}, Optional: optional}}},
			{Name: "B", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
			{Name: "C", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		}
		app.Spec.EnvFrom = []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "twice"}}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "maybe"}, Optional: optional}},
		}
		app.Spec.DatabaseRef = &v1alpha1.DatabaseReference{Name: "db"}
		app.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		app.Spec.Ingress = &v1alpha1.AppIngress{Host: "a.b", TLSSecretName: "tls"}
	})
	want := []reference{{kindConfigMap, "maybe", true}, {kindConfigMap, "settings", false}, {kindSecret, "db-credentials", false}, {kindSecret, "twice", false}}
	got := referencesOf(app)
	if len(got) != len(want) {
		t.Fatalf("got %v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("wanted %v, got %v", want[i], got[i])
		}
	}
	if keys := referencesIn(app); keys[2] != "default/Secret/db-credentials" {
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
	in := inputs{"Secret/s": {versionOf(before), digest(before)}}
	controllertest.Equal(t, "inputs that were written and read", in, inputsFrom(in.String()))
	controllertest.Equal(t, "inputs that somebody has broken", nil, inputsFrom("{"))
	newer := inputs{"Secret/s": {versionOf(labelled), digest(labelled)}}
	if in.digest() != newer.digest() || in.String() == newer.String() {
		t.Error("the digest of all inputs tells versions")
	}
	if strings.Contains(in.String(), "canary") {
		t.Error("inputs hold data")
	}
}
