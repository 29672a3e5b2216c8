//go:build integration

// Package monitoring tests artifacts/monitoring with promtool, and with a Prometheus that scrapes a controller.
package monitoring

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/postgres"
)

func TestAlertsFireWhenTheyShould(t *testing.T) {
	dir := t.TempDir()
	file := ruleFile(t, dir, func(rules string) string { return rules })
	tests, err := os.ReadFile("alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "alerts_test.yaml"), tests, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "rules", "--lint-fatal", file}, {"test", "rules", filepath.Join(dir, "alerts_test.yaml")},
	} {
		if out, err := exec.CommandContext(t.Context(), tool(t, "promtool"), args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	for _, alert := range alerts(t) {
		if !strings.Contains(string(tests), "alertname: "+alert.Alert+", exp_alerts: []}") {
			t.Errorf("no test says when %s does not fire", alert.Alert)
		}
		if !strings.Contains(string(tests), "alertname: "+alert.Alert+"\n    exp_alerts: [{") {
			t.Errorf("no test says when %s fires", alert.Alert)
		}
	}
}

func TestEveryAlertHasRunbook(t *testing.T) {
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, alert := range alerts(t) {
		file, anchor, _ := strings.Cut(alert.Annotations["runbook"], "#")
		if anchor != strings.ToLower(alert.Alert) {
			t.Errorf("the runbook of %s is %q", alert.Alert, alert.Annotations["runbook"])
			continue
		}
		page, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "\n### "+alert.Alert+"\n") {
			t.Errorf("%s has no section %s", file, alert.Alert)
		}
	}
}

// others maps metrics that the operator does not serve to the programs that serve them.
var others = map[string]string{
	"kubelet_volume_stats_available_bytes": "kubelet", "kubelet_volume_stats_capacity_bytes": "kubelet",
}

// TestPrometheusScrapesWhatDashboardAndAlertsName runs a controller and a Prometheus. Prometheus has the token and the
// CA that the PodMonitor names. The test then kills the controller, and starts another controller.
func TestPrometheusScrapesWhatDashboardAndAlertsName(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "430MiB") // as in the Deployment
	on := framework.Own(t)
	address := framework.OwnAddress()
	flags := []string{"--metrics-secure=true", "--metrics-bind-address", address, "--metrics-object-names"}
	controller := framework.Launch(t, on.Cluster, flags...)
	populate(t, on)
	p := startPrometheus(t, configure(t, on, address, controller.WebhookURL))

	namespace := on.NewNamespace(t)
	on.CreateExternalDatabase(t, namespace, "unconnected", v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: "wrong"}, DatabaseName: "a", Owner: "b",
	})
	createSecret(t, on, namespace, "wrong", map[string]string{"host": "two hosts", "username": "a", "password": "b"})
	p.awaitAlerts(t, "WindlassObjectsNeedUser", true)

	t.Run("every query of the dashboard has a result", func(t *testing.T) { p.checkDashboard(t) })
	t.Run("every metric of the alerts is served", func(t *testing.T) { p.checkAlerts(t) })
	t.Run("no label has the name of an object", func(t *testing.T) { p.checkLabels(t, namespace) })

	err := on.Windlass.WindlassV1alpha1().ExternalDatabases(namespace).Delete(t.Context(), "unconnected",
		metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.awaitAlerts(t, "WindlassObjectsNeedUser", false)
	p.awaitAlerts(t, "WindlassNoLeader", false)
	controller.Kill()
	p.awaitAlerts(t, "WindlassNoLeader", true)
	again := framework.Launch(t, on.Cluster,
		append(flags, "--webhook-url", controller.WebhookURL, "--webhook-bind-address", host(t, controller.WebhookURL))...)
	p.awaitAlerts(t, "WindlassNoLeader", false)
	if code := again.Terminate(); code != 0 {
		t.Errorf("the controller ended with exit code %d", code)
	}
}

// populate creates objects of every kind, so that every metric has series.
func populate(t *testing.T, on *framework.Installation) {
	t.Helper()
	server, err := postgres.NewServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Remove)
	namespace := on.NewNamespace(t)
	createSecret(t, on, namespace, "server", map[string]string{
		"host": "127.0.0.1", "port": server.Port, "username": "postgres", "password": server.Password, "sslmode": "disable",
	})
	on.CreateExternalDatabase(t, namespace, "cart", v1alpha1.ExternalDatabaseSpec{
		ConnectionSecretRef: v1alpha1.SecretReference{Name: "server"}, DatabaseName: "cart", Owner: "clerk",
	})
	on.CreateDatabase(t, namespace, "orders", framework.SmallestDatabase())
	on.CreateApp(t, namespace, "web", v1alpha1.AppSpec{Image: "registry.example.com/web:1"})
	on.Create(t, namespace, "nightly", "true", func(at *v1.At) { at.Spec.Schedule = "2099-01-01T00:00:00Z" })
	_, err = on.Kubectl(t.Context(),
		`{apiVersion: cnat.programming-kubernetes.info/v1alpha1, kind: At, metadata: {name: previous, namespace: `+
			namespace+`}, spec: {schedule: "2099-01-01T00:00:00Z", command: "true"}}`, "create", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	on.CreatePlatform(t, namespace, v1alpha1.PlatformSpec{
		Namespace: namespace, Components: []v1alpha1.PlatformComponent{
			{Name: "api", App: &v1alpha1.AppSpec{Image: "registry.example.com/api:1"}},
		},
	})
	on.ExternalDatabaseIn(t, namespace, "cart", v1alpha1.ExternalDatabaseReady)
}

func createSecret(t *testing.T, on *framework.Installation, namespace, name string, data map[string]string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
	if _, err := on.Kube.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// configure applies the objects of podmonitor.yaml except the PodMonitor, and writes the configuration that the
// Prometheus operator would derive from the PodMonitor. The controller runs out of cluster, so the configuration
// contains its address. Its certificate is for the host of webhookURL.
func configure(t *testing.T, on *framework.Installation, address, webhookURL string) (file string) {
	t.Helper()
	monitor := scraped(t)
	for document := range strings.SplitSeq(read(t, "podmonitor.yaml"), "\n---\n") {
		if !strings.Contains(document, "\nkind: PodMonitor\n") {
			if _, err := on.Kubectl(t.Context(), document, "apply", "-f", "-"); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir, from := t.TempDir(), monitor.Spec.PodMetricsEndpoints[0]
	for name, key := range map[string]secretKey{"token": from.Authorization.Credentials, "ca": from.TLSConfig.CA.Secret} {
		var value []byte
		framework.Eventually(t, "the Secret "+key.Name+" to have "+key.Key, func(ctx context.Context) (bool, error) {
			secret, err := on.Kube.CoreV1().Secrets(monitor.Metadata.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
			if err == nil {
				value = secret.Data[key.Key]
			}
			return len(value) > 0, framework.IgnoreNotFound(err)
		})
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	serverName, _, err := net.SplitHostPort(host(t, webhookURL))
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "prometheus.yaml")
	text := fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [%s]
scrape_configs:
- job_name: %s/%s
  scheme: %s
  authorization: {credentials_file: %s}
  tls_config: {ca_file: %s, server_name: %s}
  honor_labels: %t
  static_configs: [{targets: ["%s"], labels: {namespace: %s, pod: windlass-controller-0}}]
`, ruleFile(t, dir, quicken), monitor.Metadata.Namespace, monitor.Metadata.Name, from.Scheme,
		filepath.Join(dir, "token"), filepath.Join(dir, "ca"), serverName,
		from.HonorLabels, address, monitor.Metadata.Namespace)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// host returns the host and the port of a URL.
func host(t *testing.T, of string) string {
	t.Helper()
	_, rest, _ := strings.Cut(of, "://")
	address, _, _ := strings.Cut(rest, "/")
	return address
}

// awaitAlerts waits until an alert fires, or does not fire.
func (p *prometheus) awaitAlerts(t *testing.T, name string, fires bool) {
	t.Helper()
	what := name + " to fire"
	if !fires {
		what = name + " to be resolved"
	}
	framework.Eventually(t, what, func(ctx context.Context) (bool, error) {
		firing, err := p.firing(ctx)
		return slices.Contains(firing, name) == fires, err
	})
}

func (p *prometheus) checkDashboard(t *testing.T) {
	queries := 0
	for _, panel := range panels(t) {
		for _, target := range panel.Targets {
			queries++
			expression := strings.ReplaceAll(target.Expr, "$__rate_interval", "30s")
			framework.Eventually(t, fmt.Sprintf("a result of %q: %s", panel.Title, expression),
				func(ctx context.Context) (bool, error) {
					result, err := p.query(ctx, expression)
					return len(result) > 0, err
				})
		}
	}
	if queries < 20 {
		t.Errorf("the dashboard has %d queries", queries)
	}
}

func (p *prometheus) checkAlerts(t *testing.T) {
	served := map[string]bool{}
	var names []string
	if err := p.api(t.Context(), "label/__name__/values", nil, &names); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		served[name] = true
	}
	for _, alert := range alerts(t) {
		if _, err := p.query(t.Context(), alert.Expr); err != nil {
			t.Errorf("%s: %v", alert.Alert, err)
		}
		selected, err := p.selected(t.Context(), alert.Expr)
		if err != nil || len(selected) == 0 {
			t.Errorf("%s selects %v, %v", alert.Alert, selected, err)
		}
		for _, name := range selected {
			if !served[name] && others[name] == "" {
				t.Errorf("%s selects %s, which the controller does not serve", alert.Alert, name)
			}
		}
	}
}

// checkLabels checks that no label of any metric contains the name of an object, except with --metrics-object-names.
func (p *prometheus) checkLabels(t *testing.T, namespace string) {
	result, err := p.query(t.Context(), `{job=~".+"}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range result {
		name := s.Metric["__name__"]
		for label, value := range s.Metric {
			for _, of := range []string{namespace, "unconnected", "nightly", "cart", "orders", "clerk"} {
				if strings.Contains(value, of) && name != "windlass_database_volume_info" && label != "__name__" {
					t.Errorf("%s has the label %s=%q", name, label, value)
				}
			}
		}
	}
	listed, err := p.query(t.Context(), "windlass_database_volume_info")
	if err != nil || len(listed) != 1 || listed[0].Metric["persistentvolumeclaim"] != "orders" ||
		listed[0].Metric["namespace"] == "windlass-system" {
		t.Errorf("windlass_database_volume_info has the series %v, %v", listed, err)
	}
}
