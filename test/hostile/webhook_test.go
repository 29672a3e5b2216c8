//go:build integration

package hostile

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"windlass.dev/windlass/test/place"
)

// TestLargeRequestsDoNotFillWebhookMemory sends large requests to the conversion webhook, which does not
// authenticate its clients.
func TestLargeRequestsDoNotFillWebhookMemory(t *testing.T) {
	t.Parallel()
	const senders, size, limit = 8, 60 << 20, 400 << 20
	p := place.Own(t)
	victim := place.Launch(t, p.Cluster)
	defer victim.Terminate()
	before := victim.PeakRSS(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // an attacker does not verify the certificate
	const head = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"cnat.programming-kubernetes.info/v1alpha1","objects":[`
	for name, element := range map[string]string{
		"small values":   `{},`,
		"nested values":  strings.Repeat("[", 500) + strings.Repeat("]", 500) + ",",
		"a large string": strings.Repeat("x", 1<<20),
		"Ats": `{"apiVersion":"cnat.programming-kubernetes.info/v1","kind":"At","metadata":{"name":"a"},` +
			`"spec":{"schedule":"2030-01-01T00:00:00Z","command":["` + strings.Repeat(`a","`, 200) + `"]}},`,
	} {
		var sent sync.WaitGroup
		for range senders {
			sent.Go(func() {
				body := io.MultiReader(strings.NewReader(head), strings.NewReader(strings.Repeat(element, size/len(element))))
				response, err := client.Post(victim.WebhookURL, "application/json", body)
				if err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
			})
		}
		sent.Wait()
		t.Logf("%s: the peak is %d MiB", name, victim.PeakRSS(t)>>20)
	}
	if more := victim.PeakRSS(t) - before; more > limit {
		t.Errorf("%d requests of %d MiB took %d MiB", senders, size>>20, more>>20)
	}
	if _, err := p.Kubectl(t.Context(), "", "get", "ats.v1alpha1.cnat.programming-kubernetes.info", "--all-namespaces"); err != nil {
		t.Errorf("the webhook does not convert after the attack: %v", err)
	}
}
