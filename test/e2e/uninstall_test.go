//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestOperatorThatIsInstalledAgainFinishesDeletions removes the operator before objects with finalizers of the
// operator. It is not parallel, because other tests need the operator.
func TestOperatorThatIsInstalledAgainFinishesDeletions(t *testing.T) {
	name := here.NewNamespace(t)
	here.CreatePlatform(t, name, v1alpha1.PlatformSpec{Namespace: name, Components: []v1alpha1.PlatformComponent{
		{Name: "db", Database: new(postgresSpec())},
	}})
	here.PlatformIn(t, name, v1alpha1.PlatformReady)
	if err := operator.uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := kubectl(t.Context(), "", "delete", "--ignore-not-found", "--wait=false", "platform/"+name)
	if err != nil {
		t.Fatal(err)
	}
	platform, err := here.Windlass.WindlassV1alpha1().Platforms().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || platform.DeletionTimestamp == nil {
		t.Fatalf("the Platform does not wait for its finalizer: %v", err)
	}

	if err := operator.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the Platform and its Database to be deleted", func(ctx context.Context) (bool, error) {
		left, err := kubectl(ctx, "", "get", "platforms,databases", "--all-namespaces", "--ignore-not-found", "-o", "name")
		if err != nil && !strings.Contains(err.Error(), "the server doesn't have a resource type") { // its CRD was deleted
			return false, nil
		}
		return left == "", nil
	})
	framework.Eventually(t, "the CRDs that were being deleted to be deleted", func(ctx context.Context) (bool, error) {
		terminating, err := kubectl(ctx, "", "get", "crds", "-o",
			`jsonpath={.items[?(@.metadata.deletionTimestamp)].metadata.name}`)
		return terminating == "", err
	})
	if err := operator.install(t.Context()); err != nil { // installs the deleted CRDs again
		t.Fatal(err)
	}
}
