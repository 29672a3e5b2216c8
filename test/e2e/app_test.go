//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"os"
	"strings"
	"testing"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/world"
)

// TestAppServesHTTPAndMountsConfig needs an image that serves HTTP on port 8080 as a user other than
// root, and contains cat.
func TestAppServesHTTPAndMountsConfig(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	here.CreateApp(t, namespace, "web", v1alpha1.AppSpec{
		Image:  cmp.Or(os.Getenv("E2E_APP_IMAGE"), "nginxinc/nginx-unprivileged:1.29"),
		Probe:  &v1alpha1.AppProbe{Path: "/"},
		Config: map[string]string{"greeting": "Hello"},
	})
	here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	if _, err := kubectl(t.Context(), "", "get", "--raw", "/api/v1/namespaces/"+namespace+"/services/web:http/proxy/"); err != nil {
		t.Errorf("getting / through the Service of the App: %v", err)
	}
	if got := greeting(t, namespace); got != "Hello" {
		t.Errorf("the mounted file is %q, want Hello", got)
	}
	here.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) { app.Spec.Config["greeting"] = "Goodbye" })
	here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	world.Eventually(t, "the old Pod to be deleted", func(ctx context.Context) (bool, error) {
		pods, err := kubectl(ctx, "", "get", "pods", "-n", namespace, "-o", "name")
		return len(strings.Fields(pods)) == 1, err
	})
	if got := greeting(t, namespace); got != "Goodbye" {
		t.Errorf("after a change of the config, the mounted file is %q, want Goodbye", got)
	}
}

// greeting returns the content of the mounted file greeting in a Pod of App web.
func greeting(t *testing.T, namespace string) string {
	t.Helper()
	output, err := kubectl(t.Context(), "", "exec", "-n", namespace, "deployment/web", "--", "cat", "/etc/app/greeting")
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// TestAppWithRootImageIsNotReady needs an image that runs as root.
func TestAppWithRootImageIsNotReady(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	here.CreateApp(t, namespace, "root", v1alpha1.AppSpec{Image: cmp.Or(os.Getenv("E2E_IMAGE"), "busybox:1.37"), Command: []string{"sleep", "600"}})
	here.AppReason(t, namespace, "root", "RollingOut")
	if _, err := kubectl(t.Context(), "", "patch", "deployment", "root", "-n", namespace, "-p", `{"spec":{"progressDeadlineSeconds":5}}`); err != nil {
		t.Fatal(err)
	}
	here.AppReason(t, namespace, "root", "ProgressDeadlineExceeded")
	here.UpdateApp(t, namespace, "root", func(app *v1alpha1.App) { app.Spec.Command = []string{"sleep", "601"} })
	here.AppIn(t, namespace, "root", v1alpha1.AppDeploying)
}
