//go:build integration

package security

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestAppRunsWithLongArguments uses arguments that do not fit into the record, which is an annotation of the
// Deployment.
func TestAppRunsWithLongArguments(t *testing.T) {
	t.Parallel()
	tenant := shared.NewTenant(t)
	long := []string{"--short"}
	for range 3 {
		long = append(long, strings.Repeat("x", 100_000))
	}
	tenant.CreateApp(t, tenant.Namespace, "shop", v1alpha1.AppSpec{Image: "registry.example.com/shop:1", Args: long})
	tenant.AppIn(t, tenant.Namespace, "shop", v1alpha1.AppReady)
	argsAre := func(wanted []string) {
		framework.Eventually(t, "the Deployment to have the arguments of the App", func(ctx context.Context) (bool, error) {
			d, err := tenant.Kube.AppsV1().Deployments(tenant.Namespace).Get(ctx, "shop", metav1.GetOptions{})
			return err == nil && cmp.Equal(wanted, d.Spec.Template.Spec.Containers[0].Args), err
		})
	}
	argsAre(long)
	tenant.UpdateApp(t, tenant.Namespace, "shop", func(app *v1alpha1.App) { app.Spec.Args = nil })
	argsAre(nil)
	tenant.AppIn(t, tenant.Namespace, "shop", v1alpha1.AppReady)
}
