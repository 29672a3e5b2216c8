//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// chartObjects are the objects of a Helm chart, with the place of an image.
const chartObjects = `
apiVersion: v1
kind: ConfigMap
metadata: {name: web-files}
data: {greeting: Hello}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app.kubernetes.io/managed-by: Helm}}
spec:
  replicas: 2
  selector: {matchLabels: &labels {app.kubernetes.io/name: web, app.kubernetes.io/instance: release}}
  template:
    metadata: {labels: *labels, annotations: {checksum/config: abc}}
    spec:
      volumes: [{name: files, configMap: {name: web-files}}]
      containers:
      - name: server
        image: %q
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 1}
        volumeMounts: [{name: files, mountPath: /etc/files}]
        lifecycle: {preStop: {sleep: {seconds: 5}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app.kubernetes.io/name: web}, ports: [{name: http, port: 80, targetPort: http}]}
`

// likeChart returns an App that keeps the Pods of the chart.
func likeChart() v1alpha1.AppSpec {
	template := `{"securityContext":{"$patch":"replace"},"containers":[` +
		`{"name":"server","securityContext":{"$patch":"replace"}}]}`
	return v1alpha1.AppSpec{
		Image: appImage(), ContainerName: "server", Replicas: ptr.To[int32](2),
		Ports: []v1alpha1.AppPort{{Name: "http", Port: 8080, ServicePort: 80}},
		Probes: &v1alpha1.AppProbes{Readiness: &v1alpha1.AppContainerProbe{
			HTTPGet: &v1alpha1.AppHTTPGet{Path: "/"}, PeriodSeconds: 1,
		}},
		Volumes: []v1alpha1.AppVolume{
			{Name: "files", MountPath: "/etc/files", ConfigMap: &v1alpha1.AppFiles{Name: "web-files"}},
		},
		PodTemplate: &cnatv1.PodTemplate{Spec: &runtime.RawExtension{Raw: []byte(template)}},
	}
}

// TestAdoptionUnderLoadLosesNoRequest moves the objects of a chart to an App, replaces their Pods, and moves them away,
// while clients send requests without a pause.
func TestAdoptionUnderLoadLosesNoRequest(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	run := func(input string, args ...string) {
		t.Helper()
		if _, err := kubectl(t.Context(), input, append(args, "-n", namespace)...); err != nil {
			t.Fatal(err)
		}
	}
	run(fmt.Sprintf(chartObjects, appImage()), "apply", "-f", "-")
	run("", "rollout", "status", "deployment/web", "--timeout=5m")
	service, err := here.Kube.CoreV1().Services(namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	startClient(t, namespace, "client", service.Spec.ClusterIP)
	pods := podsOfChart(t, namespace)

	run("", "annotate", "deployment/web", "service/web", "windlass.dev/adopt=App/web")
	name := namespace + "/web"
	checkPlan(t, namespace, "Deployment "+name+" is adopted, and its Pods keep running (for App "+name+")")
	here.CreateApp(t, namespace, "web", likeChart())
	here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	if now := podsOfChart(t, namespace); now != pods {
		t.Errorf("the adoption has replaced Pods: %s, want %s", now, pods)
	}
	here.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) {
		app.Spec.Env = []corev1.EnvVar{{Name: "RELEASE", Value: "2"}}
	})
	framework.Eventually(t, "new Pods", func(context.Context) (bool, error) {
		now := podsOfChart(t, namespace)
		return len(strings.Fields(now)) == 2 && !strings.Contains(now, strings.Fields(pods)[0]) &&
			!strings.Contains(now, strings.Fields(pods)[1]), nil
	})
	here.AppIn(t, namespace, "web", v1alpha1.AppReady)
	pods = podsOfChart(t, namespace)
	run("", "delete", "app/web", "--cascade=orphan")
	run("", "annotate", "deployment/web", "service/web", "windlass.dev/last-applied-", "windlass.dev/app-spec-",
		"windlass.dev/adopted-template-")
	run("", "label", "deployment/web", "service/web", "app.kubernetes.io/managed-by-")
	run("", "rollout", "status", "deployment/web", "--timeout=5m")
	if now := podsOfChart(t, namespace); now != pods {
		t.Errorf("the way back has replaced Pods: %s, want %s", now, pods)
	}
	sent, failed := stopClient(t, namespace, "client")
	t.Logf("%d of %d requests failed", failed, sent)
	if failed > 0 || sent < 100 {
		t.Errorf("%d of %d requests failed, want 0 of at least 100", failed, sent)
	}
}

// checkPlan checks that the plan of the App of likeChart has a line.
func checkPlan(t *testing.T, namespace, line string) {
	t.Helper()
	app := v1alpha1.App{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "App"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: likeChart(),
	}
	manifest, err := json.Marshal(app)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "web.json")
	if err := os.WriteFile(file, manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := plugin(t.Context(), "plan", "-f", file) // fails, because there are differences
	if !strings.Contains(output, line+"\n") {
		t.Errorf("the plan is %s (%v), want a line %q", output, err, line)
	}
}

// podsOfChart returns the names of the Pods of the chart that are not being deleted.
func podsOfChart(t *testing.T, namespace string) string {
	t.Helper()
	list, err := here.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/instance=release",
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			names = append(names, list.Items[i].Name)
		}
	}
	return strings.Join(names, " ")
}
