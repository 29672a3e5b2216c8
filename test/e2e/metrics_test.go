//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/framework"
)

// TestOperatorServesMetricsToWhomRBACAllows scrapes the metrics like Prometheus: with the token of a ServiceAccount,
// and with the CA in the webhook's Secret.
func TestOperatorServesMetricsToWhomRBACAllows(t *testing.T) {
	t.Parallel()
	namespace := here.NewNamespace(t)
	here.Create(t, namespace, "counted", "true", nil)
	here.InPhase(t, namespace, "counted", v1.AtDone)

	pod, client := leader(t.Context()), scraper(t)
	if status, text := get(t, client, pod, ""); status != http.StatusUnauthorized {
		t.Errorf("without a token: status %d: %s", status, text)
	}
	token := serviceAccountToken(t, namespace, "prometheus")
	if status, text := get(t, client, pod, token); status != http.StatusForbidden {
		t.Errorf("without the ClusterRole: status %d: %s", status, text)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-metrics"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "windlass-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "prometheus"}},
	}
	_, err := here.Kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = here.Kube.RbacV1().ClusterRoleBindings().Delete(context.Background(), binding.Name, metav1.DeleteOptions{})
	})
	var metrics string
	// the operator caches a denial for 10 s
	framework.Eventually(t, "the operator to serve its metrics", func(context.Context) (bool, error) {
		var status int
		status, metrics = get(t, client, pod, token)
		return status == http.StatusOK, nil
	})
	for _, series := range []string{
		`controller_runtime_reconcile_total{controller="at",result="success"}`,
		`controller_runtime_max_concurrent_reconciles{controller="at"} 10`,
		`workqueue_depth{name="at"`, `leader_election_master_status{name="windlass-controller"} 1`,
		"rest_client_requests_total{",
	} {
		if !strings.Contains(metrics, series) {
			t.Errorf("the metrics have no series %s:\n%s", series, metrics)
		}
	}
}

var forwarded = regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:\d+)`)

// forward forwards a local port to the metrics of a replica. It returns the URL of the metrics, and a function that
// ends the forwarding.
func forward(t *testing.T, pod string) (url string, end func()) {
	t.Helper()
	command, err := kubectlCommand(t.Context(), "port-forward", "-n", operatorNamespace, "pod/"+pod, ":8443")
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := forwarded.FindStringSubmatch(lines.Text()); found != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return "https://" + found[1] + "/metrics", end
		}
	}
	end()
	t.Fatalf("kubectl port-forward has ended: %v", lines.Err())
	return "", nil
}

// scraper returns a client that trusts the CA in the webhook's Secret.
func scraper(t *testing.T) *http.Client {
	t.Helper()
	secret, err := here.Kube.CoreV1().Secrets(operatorNamespace).Get(t.Context(), "windlass-webhook-certificate",
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		t.Fatal("the Secret has no CA")
	}
	return &http.Client{Timeout: time.Minute,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
			RootCAs: roots, ServerName: "windlass-webhook." + operatorNamespace + ".svc", MinVersion: tls.VersionTLS12,
		}}}
}

func serviceAccountToken(t *testing.T, namespace, name string) string {
	t.Helper()
	accounts := here.Kube.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// get requests the metrics of a replica. Each request has a forwarded port of its own, because kubectl port-forward can
// end when the replica closes a connection.
func get(t *testing.T, client *http.Client, pod, token string) (status int, text string) {
	t.Helper()
	url, end := forward(t, pod)
	defer end()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}
