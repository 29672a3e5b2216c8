//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

func TestCacheOmitsDataOfForeignSecretsAndConfigMaps(t *testing.T) {
	t.Parallel()
	const each, size, limit = 25, 1_000_000, 1 << 20
	p := framework.Own(t)
	controller := framework.Launch(t, p.Cluster, "--pprof")
	defer controller.Terminate()
	p.CreateApp(t, "default", "warm", smallest())
	p.AppIn(t, "default", "warm", v1alpha1.AppReady)
	before := controller.Heap(t)
	large := strings.Repeat("x", size)
	for i := range each {
		p.CreateSecret(t, "default", fmt.Sprintf("secret-%03d", i), map[string]string{"LARGE": large})
		c := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("config-%03d", i)}, Data: map[string]string{"LARGE": large},
		}
		if _, err := p.Kube.CoreV1().ConfigMaps("default").Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// An App that names the last Secret and ConfigMap becomes Ready after the caches have observed all others.
	spec := smallest()
	spec.EnvFrom = []corev1.EnvFromSource{
		{
			SecretRef: &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprintf("secret-%03d", each-1)},
			},
		},
		{
			ConfigMapRef: &corev1.ConfigMapEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprintf("config-%03d", each-1)},
			},
		},
	}
	p.CreateApp(t, "default", "shop", spec)
	p.AppIn(t, "default", "shop", v1alpha1.AppReady)
	more := controller.Heap(t) - before
	t.Logf("%d foreign Secrets and ConfigMaps of %d bytes each made the heap %d KiB larger", 2*each, size, more>>10)
	if more > limit {
		t.Errorf("the heap grew by %d KiB, want at most %d KiB", more>>10, limit>>10)
	}
}
