//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// TestAppServesHTTPAndMountsConfig needs an image that serves HTTP on port 8080 as a user other than
// root, and contains cat.
func TestAppServesHTTPAndMountsConfig(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	here.CreateApp(t, namespace, "web", v1alpha1.AppSpec{
		Image:  appImage(),
		Probe:  &v1alpha1.AppProbe{Path: "/"},
		Config: map[string]string{"greeting": "Hello"},
	})
	here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	if _, err := kubectl(t.Context(), "", "get", "--raw",
		"/api/v1/namespaces/"+namespace+"/services/web:http/proxy/"); err != nil {
		t.Errorf("getting / through the Service of the App: %v", err)
	}
	if got := greeting(t, namespace); got != "Hello" {
		t.Errorf("the mounted file is %q, want Hello", got)
	}
	here.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) { app.Spec.Config["greeting"] = "Goodbye" })
	here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	framework.Eventually(t, "the old Pod to be deleted", func(ctx context.Context) (bool, error) {
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

// appImage returns an image that serves HTTP on port 8080 as a user other than root.
func appImage() string { return cmp.Or(os.Getenv("E2E_APP_IMAGE"), "nginxinc/nginx-unprivileged:1.29") }

// missingImage is an image that does not exist.
const missingImage = "localhost/there-is-no-such-image:1"

// TestAppSaysWhyPodsDoNotRun checks the reason and the message of Apps whose Pods do not run. The image of E2E_IMAGE
// must run as root.
func TestAppSaysWhyPodsDoNotRun(t *testing.T) {
	for name, c := range map[string]struct {
		spec            v1alpha1.AppSpec
		reason, message string
	}{
		"an image that does not exist": {
			v1alpha1.AppSpec{Image: missingImage}, "ImagePullBackOff", missingImage,
		},
		"an image that runs as root": {
			v1alpha1.AppSpec{Image: atImage(), Command: []string{"sleep", "600"}}, "CreateContainerConfigError",
			"image will run as root",
		},
		"a container that crashes": {
			v1alpha1.AppSpec{
				Image: appImage(), Command: []string{"sh", "-c", "echo starting; echo there is no database >&2; exit 3"},
			},
			"CrashLoopBackOff", "the container ended with exit code 3. 1 of 1 new Pods have a problem; 0 Pods are ready.",
		},
		"a command that does not exist": {
			v1alpha1.AppSpec{Image: appImage(), Command: []string{"/no/such/thing"}}, "CrashLoopBackOff", "no such file",
		},
		"a Pod that is too large for every node": {
			v1alpha1.AppSpec{
				Image: appImage(), Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5000")},
				},
			},
			"Unschedulable", "Insufficient cpu",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := here.NewNamespace(t)
			here.CreateApp(t, namespace, "web", c.spec)
			app := here.AppReason(t, namespace, "web", c.reason)
			ready := meta.FindStatusCondition(app.Status.Conditions, "Ready")
			t.Logf("phase %s, Ready=%s %s: %s", app.Status.Phase, ready.Status, ready.Reason, ready.Message)
			if !strings.Contains(ready.Message, c.message) || !meta.IsStatusConditionTrue(app.Status.Conditions, "Degraded") {
				t.Errorf("the conditions are %v, want Degraded=True and a message with %q", app.Status.Conditions, c.message)
			}
			here.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) {
				app.Spec.Image, app.Spec.Command, app.Spec.Resources = appImage(), nil, corev1.ResourceRequirements{}
			})
			here.AppIn(t, namespace, "web", v1alpha1.AppReady)
		})
	}
}

// TestCrashLoopCostsFewStatusWrites watches an App whose container crashes repeatedly, each time with a different log.
func TestCrashLoopCostsFewStatusWrites(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	here.CreateApp(t, namespace, "web", v1alpha1.AppSpec{
		Image: appImage(), Command: []string{"sh", "-c", "sleep 1; date +%s%N >&2; exit 3"},
	})
	before := here.AppReason(t, namespace, "web", "CrashLoopBackOff")
	framework.Eventually(t, "three more crashes", func(ctx context.Context) (bool, error) {
		pods, err := here.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items) == 1 && pods.Items[0].Status.ContainerStatuses[0].RestartCount >= 4, err
	})
	after := here.AppReason(t, namespace, "web", "CrashLoopBackOff")
	if after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the status was written again: before %+v, after %+v", before.Status, after.Status)
	}
}

// TestAppThatCrashesAfterSomeSecondsIsNeverReady runs a container that has no readiness probe and crashes after 3 s.
func TestAppThatCrashesAfterSomeSecondsIsNeverReady(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	here.CreateApp(t, namespace, "web", v1alpha1.AppSpec{
		Image: appImage(), Command: []string{"sh", "-c", "sleep 3; exit 3"},
	})
	app := here.AppReason(t, namespace, "web", "CrashLoopBackOff")
	if app.Status.LastAvailable != nil {
		t.Errorf("the App was Ready before it crashed: %+v", app.Status)
	}
}

func TestAppReportsQuota(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "small"}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")},
		},
	}
	_, err := here.Kube.CoreV1().ResourceQuotas(namespace).Create(t.Context(), quota, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	here.CreateApp(t, namespace, "web", v1alpha1.AppSpec{Image: appImage()})
	ready := meta.FindStatusCondition(here.AppReason(t, namespace, "web", "PodRejected").Status.Conditions, "Ready")
	t.Logf("Ready=%s %s: %s", ready.Status, ready.Reason, ready.Message)
	if !strings.Contains(ready.Message, "exceeded quota: small") || !strings.Contains(ready.Message, "Raise the quota") {
		t.Errorf("the message does not name the quota, or does not say what to do: %s", ready.Message)
	}
}

func TestRolloutUndoIsChangedBackWithWarning(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	here.CreateApp(t, namespace, "web", v1alpha1.AppSpec{
		Image: appImage(), Args: []string{}, Env: []corev1.EnvVar{{Name: "RELEASE", Value: "1"}},
	})
	here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	here.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) { app.Spec.Env[0].Value = "2" })
	here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	if _, err := kubectl(t.Context(), "", "rollout", "undo", "-n", namespace, "deployment/web"); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the Event TemplateReverted", func(ctx context.Context) (bool, error) {
		events, err := kubectl(ctx, "", "get", "events", "-n", namespace, "-o",
			`jsonpath={range .items[*]}{.type} {.reason}: {.message}{"\n"}{end}`)
		return strings.Contains(events, "Warning TemplateReverted: "), err
	})
	here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	release, err := kubectl(t.Context(), "", "get", "deployment", "web", "-n", namespace, "-o",
		"jsonpath={.spec.template.spec.containers[0].env[0].value}")
	if err != nil || release != "2" {
		t.Errorf("the Deployment has release %q, want 2: %v", release, err)
	}
}

// TestAppWaitsUntilItsDatabaseIsReady creates an App and its Database together, and checks that the first Pod of the
// App is created after the Database is Ready.
func TestAppWaitsUntilItsDatabaseIsReady(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	here.CreateApp(t, namespace, "web", v1alpha1.AppSpec{
		Image: appImage(), DatabaseRef: &v1alpha1.DatabaseReference{Name: "shop"},
	})
	here.CreateDatabase(t, namespace, "shop", postgresSpec())
	here.AppReason(t, namespace, "web", "DatabaseNotReady")
	app := here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	pods, err := here.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{
		LabelSelector: "windlass.dev/app=web",
	})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("got %d Pods of App %s, want 1: %v", len(pods.Items), app.Name, err)
	}
	db := here.DatabaseIn(t, namespace, "shop", v1alpha1.DatabaseReady)
	ready := meta.FindStatusCondition(db.Status.Conditions, "Ready")
	if created := pods.Items[0].CreationTimestamp; created.Before(&ready.LastTransitionTime) {
		t.Errorf("the Pod was created at %s, before the Database was Ready at %s", created, ready.LastTransitionTime)
	}
}
