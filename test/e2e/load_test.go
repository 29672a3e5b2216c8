//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// rollouts is the number of rollouts under load.
const rollouts = 10

// clientScript sends requests to the address in its first argument until the file /tmp/stop exists. It then prints the
// number of requests, and the number of requests that failed.
const clientScript = `
sent=0 failed=0
while [ ! -e /tmp/stop ]; do
  sent=$((sent + 1))
  timeout 10 wget -q -O /dev/null "http://$0/" || failed=$((failed + 1))
done
echo "$sent $failed"`

// TestRolloutUnderLoadLosesNoRequest rolls out ten versions of an App while clients in the cluster send requests to
// its Service without a pause.
func TestRolloutUnderLoadLosesNoRequest(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	here.CreateApp(t, namespace, "web", v1alpha1.AppSpec{
		Image: appImage(), Replicas: ptr.To[int32](2), Probe: &v1alpha1.AppProbe{Path: "/"},
		Env: []corev1.EnvVar{{Name: "RELEASE", Value: "0"}},
	})
	here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	service, err := here.Kube.CoreV1().Services(namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	clients := []string{"client-1", "client-2"}
	for _, name := range clients {
		startClient(t, namespace, name, service.Spec.ClusterIP)
	}
	for release := 1; release <= rollouts; release++ {
		here.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) { app.Spec.Env[0].Value = fmt.Sprint(release) })
		here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	}
	framework.Eventually(t, "the Pods of the previous releases to end", func(ctx context.Context) (bool, error) {
		pods, err := kubectl(ctx, "", "get", "pods", "-n", namespace, "-l", "windlass.dev/app=web", "-o", "name")
		return len(strings.Fields(pods)) == 2, err
	})
	sent, failed := 0, 0
	for _, name := range clients {
		s, f := stopClient(t, namespace, name)
		sent, failed = sent+s, failed+f
	}
	t.Logf("during %d rollouts, %d of %d requests failed", rollouts, failed, sent)
	if failed > 0 || sent < 10*rollouts {
		t.Errorf("during %d rollouts, %d of %d requests failed, want 0 of at least %d", rollouts, failed, sent, 10*rollouts)
	}
}

// startClient runs clientScript in a Pod, and waits until it runs.
func startClient(t *testing.T, namespace, name, address string) {
	t.Helper()
	startPod(t, namespace, name, clientScript, address)
}

// startPod runs a shell script with an argument in a Pod, and waits until it runs.
func startPod(t *testing.T, namespace, name, script, argument string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "client", Image: atImage(), Command: []string{"sh", "-c", script, argument},
			}},
		},
	}
	if _, err := here.Kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, namespace, name, corev1.PodRunning)
}

// stopClient ends a client, and returns the number of its requests, and the number of its failed requests.
func stopClient(t *testing.T, namespace, name string) (sent, failed int) {
	t.Helper()
	if _, err := kubectl(t.Context(), "", "exec", "-n", namespace, name, "--", "touch", "/tmp/stop"); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, namespace, name, corev1.PodSucceeded)
	output, err := kubectl(t.Context(), "", "logs", "-n", namespace, name, "--tail=1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(output, &sent, &failed); err != nil {
		t.Fatalf("the log of Pod %s ends with %q: %v", name, output, err)
	}
	return sent, failed
}

// awaitPod waits until a Pod has a phase.
func awaitPod(t *testing.T, namespace, name string, phase corev1.PodPhase) {
	t.Helper()
	framework.Eventually(t, "Pod "+name+" to be "+string(phase), func(ctx context.Context) (bool, error) {
		pod, err := here.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == phase, err
	})
}

// slowClientScript sends half of a request to the address in its first argument, and the rest after 45 s. It prints the
// first line of the response.
const slowClientScript = `
(printf 'GET / HTTP/1.1\r\nHost: web\r\n'; sleep 45; printf 'Connection: close\r\n\r\n'; sleep 5) |
  nc "$0" 80 | head -n 1`

// TestRolloutWaitsForSlowRequest rolls out a new version while the previous Pod receives a request for 45 s. The image
// of E2E_APP_IMAGE must finish its requests after the signal to stop.
func TestRolloutWaitsForSlowRequest(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	here.CreateApp(t, namespace, "web", v1alpha1.AppSpec{
		Image: appImage(), Probe: &v1alpha1.AppProbe{Path: "/"}, Env: []corev1.EnvVar{{Name: "RELEASE", Value: "0"}},
		Shutdown: &v1alpha1.AppShutdown{GracePeriodSeconds: ptr.To[int64](60)},
	})
	here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	service, err := here.Kube.CoreV1().Services(namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	startPod(t, namespace, "client", slowClientScript, service.Spec.ClusterIP)
	previous := podsOfApp(t, namespace)
	here.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) { app.Spec.Env[0].Value = "1" })
	framework.Eventually(t, "the previous Pod to be asked to stop", func(ctx context.Context) (bool, error) {
		deleted, err := kubectl(ctx, "", "get", previous, "-n", namespace, "-o", "jsonpath={.metadata.deletionTimestamp}")
		return deleted != "", err
	})
	client, err := here.Kube.CoreV1().Pods(namespace).Get(t.Context(), "client", metav1.GetOptions{})
	if err != nil || client.Status.Phase != corev1.PodRunning {
		t.Fatalf("the request ended before the previous Pod was asked to stop: %v", err)
	}
	awaitPod(t, namespace, "client", corev1.PodSucceeded)
	response, err := kubectl(t.Context(), "", "logs", "-n", namespace, "client")
	if err != nil || !strings.Contains(response, " 200 ") {
		t.Errorf("the response is %q, want status 200: %v", response, err)
	}
}

// TestFailedReleaseChangesNoFileOfPreviousPods releases a new file with an image that does not exist.
func TestFailedReleaseChangesNoFileOfPreviousPods(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	here.CreateApp(t, namespace, "web", v1alpha1.AppSpec{
		Image: appImage(), Probe: &v1alpha1.AppProbe{Path: "/"}, Config: map[string]string{"greeting": "Hello"},
	})
	here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	previous := podsOfApp(t, namespace)
	here.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) {
		app.Spec.Image, app.Spec.Config["greeting"] = missingImage, "Goodbye"
	})
	here.AppReason(t, namespace, "web", "ImagePullBackOff")
	mounted, err := kubectl(t.Context(), "", "get", previous, "-n", namespace, "-o",
		"jsonpath={.spec.volumes[*].configMap.name}")
	if err != nil {
		t.Fatal(err)
	}
	stored, err := kubectl(t.Context(), "", "get", "configmap", strings.Fields(mounted)[0], "-n", namespace, "-o",
		"jsonpath={.data.greeting}")
	if err != nil || stored != "Hello" {
		t.Errorf("the ConfigMap of the previous Pod has %q, want Hello: %v", stored, err)
	}
	read, err := kubectl(t.Context(), "", "exec", "-n", namespace, previous, "--", "cat", "/etc/app/greeting")
	if err != nil || read != "Hello" {
		t.Errorf("the previous Pod reads %q, want Hello: %v", read, err)
	}
}
