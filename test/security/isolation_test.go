//go:build integration

package security

import (
	"regexp"
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestKindWithoutCacheDelaysNoOtherKind deletes the CustomResourceDefinition of App before the controller starts, so
// that the cache of Apps never syncs. The controller of Platforms needs this cache too.
func TestKindWithoutCacheDelaysNoOtherKind(t *testing.T) {
	t.Parallel()
	p := framework.Own(t)
	if _, err := p.Kubectl(t.Context(), "", "delete", "crd", "apps.windlass.dev"); err != nil {
		t.Fatal(err)
	}
	crippled := framework.Launch(t, p.Cluster) // returns when the controller is ready
	defer crippled.Terminate()
	namespace := p.NewNamespace(t)
	p.CreateDatabase(t, namespace, "canary", framework.SmallestDatabase())
	p.DatabaseIn(t, namespace, "canary", v1alpha1.DatabaseReady)
	p.Create(t, namespace, "canary", "true", nil)
	p.InPhase(t, namespace, "canary", "Done")
	if _, err := p.Kubectl(t.Context(), "", "get", "ats.v1alpha1.cnat.programming-kubernetes.info", "-n",
		namespace); err != nil {
		t.Errorf("the webhook does not convert: %v", err)
	}
	for _, message := range []string{"Starting without a kind whose caches have not synced", "Failed to watch a kind, "} {
		if !regexp.MustCompile(`(?m)"` + message + `.* err=.* controller="app"`).MatchString(crippled.Log.String()) {
			t.Errorf("the log does not name the kind that does not work with the message %q", message)
		}
	}
}
