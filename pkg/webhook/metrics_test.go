package webhook

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"

	"windlass.dev/windlass/pkg/webhook/certificate"
)

// served returns the samples of the webhook's metrics.
func served(t *testing.T) (samples []string) {
	t.Helper()
	response := httptest.NewRecorder()
	legacyregistry.Handler().ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics",
		nil))
	for line := range strings.Lines(response.Body.String()) {
		if strings.HasPrefix(line, "windlass_webhook_") {
			samples = append(samples, strings.TrimSpace(line))
		}
	}
	return samples
}

func TestConversionsAreCountedByResult(t *testing.T) {
	conversions.Reset()
	do(t, http.MethodPost, certificate.Path, "application/json", strings.NewReader(reviewOf(oldAt))).Body.Close()
	do(t, http.MethodPost, certificate.Path, "application/json",
		strings.NewReader(reviewOf(`{"apiVersion":"example.com/v1","kind":"Other"}`))).Body.Close()
	do(t, http.MethodPost, certificate.Path, "text/plain", strings.NewReader("")).Body.Close()
	for _, result := range []string{resultSuccess, resultFailed, resultRejected} {
		if want := fmt.Sprintf(`windlass_webhook_conversions_total{result=%q} 1`, result); !slices.Contains(served(t), want) {
			t.Errorf("got %q, want %s", served(t), want)
		}
	}
}

func TestMetricsSayWhetherWebhookIsReadyAndWhenCertificateExpires(t *testing.T) {
	o := start(t, 1)
	s := o.replicas[0]
	s.UpdateMetrics()
	serving, err := s.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	expiry := fmt.Sprintf("windlass_webhook_certificate_expiration_timestamp_seconds %v",
		float64(serving.Leaf.NotAfter.Unix()))
	if got := served(t); !slices.Contains(got, "windlass_webhook_ready 1") || !slices.Contains(got, expiry) {
		t.Errorf("got %q, want a ready webhook, and %s", got, expiry)
	}
	o.replica(Options{}).UpdateMetrics() // this replica does not run
	if got := served(t); !slices.Contains(got, "windlass_webhook_ready 0") {
		t.Errorf("got %q, want a webhook that is not ready", got)
	}
}
