package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"windlass.dev/windlass/pkg/certificates"
	"windlass.dev/windlass/pkg/webhook/internal/webhooktest"
)

const (
	namespace   = "windlass-system"
	serviceName = "windlass-webhook"
	day         = 24 * time.Hour
)

// house is an API server with replicas of the webhook.
type house struct {
	t     *testing.T
	ctx   context.Context // with the test's logger
	api   *webhooktest.API
	clock *clocktesting.FakeClock
	names map[string]string // maps CAs and serving certificates to names, which are numbered in the order of first use
	count map[string]int    // how many names of each kind there are
}

func newHouse(t *testing.T) *house {
	start := time.Date(2026, 2, 10, 20, 30, 0, 0, time.UTC)
	_, ctx := ktesting.NewTestContext(t)
	return &house{
		t: t, ctx: ctx, api: webhooktest.NewAPI(t), clock: clocktesting.NewFakeClock(start), names: map[string]string{},
		count: map[string]int{},
	}
}

// replica is a Source that reconciles only when a test calls rest or reconcile.
type replica struct {
	*Source
	house *house
}

// replica returns a replica that the API server calls at its Service, in the installation in namespace.
func (h *house) replica() *replica { return h.replicaOf(Options{Namespace: namespace}) }

// replicaOf returns a replica with the namespace and the URL in options.
func (h *house) replicaOf(options Options) *replica {
	options.ServiceName, options.Clock = serviceName, h.clock
	return &replica{Source: New(h.api.Kube, h.api.CRD, options), house: h}
}

// rest reconciles until a reconcile writes nothing, and returns descriptions of all writes.
func (r *replica) rest() []string {
	r.house.t.Helper()
	r.house.api.Forget()
	for range 10 {
		before := len(r.house.api.Writes())
		if err := r.reconcile(r.house.ctx); err != nil {
			r.house.t.Fatal(err)
		}
		if len(r.house.api.Writes()) == before {
			return r.house.written()
		}
	}
	r.house.t.Fatalf("there is no end to it: %s", r.house.written())
	return nil
}

// served returns the name of the certificate that a replica serves with.
func (r *replica) served() string {
	certificate, err := r.GetCertificate(nil)
	if err != nil {
		return "nothing"
	}
	return r.house.name("certificate", certificate.Leaf)
}

// config returns the clientConfig with which the API server calls the webhook.
func (h *house) config() *apiextensionsv1.WebhookClientConfig {
	return h.api.Definition().Spec.Conversion.Webhook.ClientConfig
}

func (h *house) secret() *corev1.Secret { return h.api.Secret(namespace, SecretName) }

// written describes the writes that the API server recorded.
func (h *house) written() []string {
	h.t.Helper()
	var lines []string
	for _, obj := range h.api.Writes() {
		lines = append(lines, h.describe(obj))
	}
	return lines
}

// describe returns the names of the CAs and of the serving certificate in an object, for example "Secret: CA 2, CA 1;
// certificate 1 by CA 1".
func (h *house) describe(obj runtime.Object) string {
	h.t.Helper()
	switch obj := obj.(type) {
	case *apiextensionsv1.CustomResourceDefinition:
		return "CRD: " + h.bundle(obj.Spec.Conversion.Webhook.ClientConfig.CABundle)
	case *corev1.Secret:
		bundle := h.bundle(obj.Data["ca.crt"])
		serving, err := tls.X509KeyPair(obj.Data["tls.crt"], obj.Data["tls.key"])
		if err != nil {
			return fmt.Sprintf("Secret: %s; no certificate", bundle)
		}
		by := "a stranger"
		for _, ca := range certificates.ParseBundle(obj.Data["ca.crt"], time.Time{}) {
			if serving.Leaf.CheckSignatureFrom(ca) == nil {
				by = h.name("CA", ca)
			}
		}
		return fmt.Sprintf("Secret: %s; %s by %s", bundle, h.name("certificate", serving.Leaf), by)
	}
	return fmt.Sprintf("%T", obj)
}

func (h *house) bundle(pem []byte) string {
	var names []string
	for _, ca := range certificates.ParseBundle(pem, time.Time{}) {
		names = append(names, h.name("CA", ca))
	}
	return strings.Join(names, ", ")
}

func (h *house) name(kind string, c *x509.Certificate) string {
	key := kind + string(c.Raw)
	if h.names[key] == "" {
		h.count[kind]++
		h.names[key] = fmt.Sprintf("%s %d", kind, h.count[kind])
	}
	return h.names[key]
}

// want fails the test if the descriptions of writes are not as expected.
func (h *house) want(got []string, want ...string) {
	h.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// wantServed checks which certificate a replica serves with, and that the API server trusts it.
func (h *house) wantServed(r *replica, want string) {
	h.t.Helper()
	if got := r.served(); got != want {
		h.t.Errorf("it serves with %s, want %s", got, want)
	}
	certificate, err := r.GetCertificate(nil)
	if err != nil {
		return
	}
	bundle := certificates.ParseBundle(h.config().CABundle, h.clock.Now())
	if !(&certificates.Pair{Certificate: *certificate}).IsTrusted(bundle, h.clock.Now()) {
		h.t.Errorf("the API server does not trust %s", want)
	}
}
