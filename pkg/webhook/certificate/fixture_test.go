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

	"windlass.dev/windlass/pkg/webhook/internal/webhooktest"
)

const (
	namespace = "windlass-system"
	day       = 24 * time.Hour
)

// house is an API server with replicas of the webhook.
type house struct {
	t     *testing.T
	ctx   context.Context // with the test's logger
	api   *webhooktest.API
	clock *clocktesting.FakeClock
	names map[string]string // maps CAs and serving certificates to names, which are numbered in the order of first use
}

func newHouse(t *testing.T) *house {
	start := time.Date(2026, 2, 10, 20, 30, 0, 0, time.UTC)
	_, ctx := ktesting.NewTestContext(t)
	return &house{
		t: t, ctx: ctx, api: webhooktest.NewAPI(t), clock: clocktesting.NewFakeClock(start), names: map[string]string{},
	}
}

// replica is a Source whose caches the test updates.
type replica struct {
	*Source
	house *house
}

func (h *house) replica(options Options) *replica {
	h.t.Helper()
	setDefault(&options.Namespace, namespace)
	options.Clock = h.clock
	source, err := New(h.api.Kube, h.api.CRD, options)
	if err != nil {
		h.t.Fatal(err)
	}
	return &replica{Source: source, house: h}
}

// watch updates the caches of a replica from the API server.
func (r *replica) watch() {
	r.house.t.Helper()
	var seen []any
	if secret := r.house.api.Secret(r.options.Namespace, DefaultSecretName); secret != nil && ours(secret) {
		seen = append(seen, secret)
	}
	if err := r.kubeInformers.Core().V1().Secrets().Informer().GetStore().Replace(seen, ""); err != nil {
		r.house.t.Fatal(err)
	}
	crds := r.crdInformers.Apiextensions().V1().CustomResourceDefinitions().Informer().GetStore()
	if err := crds.Replace([]any{r.house.api.Definition()}, ""); err != nil {
		r.house.t.Fatal(err)
	}
}

// pass runs one reconcile with current caches.
func (r *replica) pass() error {
	r.house.t.Helper()
	r.watch()
	return r.sync(r.house.ctx)
}

// rest reconciles until there is nothing left to write, and describes the writes.
func (r *replica) rest() []string {
	r.house.t.Helper()
	r.house.api.Forget()
	for range 10 {
		before := len(r.house.api.Writes())
		if err := r.pass(); err != nil {
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

func (h *house) secret() *corev1.Secret { return h.api.Secret(namespace, DefaultSecretName) }

// written describes the writes that the API server recorded.
func (h *house) written() []string {
	h.t.Helper()
	var lines []string
	for _, obj := range h.api.Writes() {
		lines = append(lines, h.describe(obj))
	}
	return lines
}

// describe names the CAs and the serving certificate in an object, for example
// "Secret: CA 2, CA 1; certificate 1 by CA 1".
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
		for _, ca := range parseBundle(obj.Data["ca.crt"], time.Time{}) {
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
	for _, ca := range parseBundle(pem, time.Time{}) {
		names = append(names, h.name("CA", ca))
	}
	return strings.Join(names, ", ")
}

func (h *house) name(kind string, c *x509.Certificate) string {
	key := kind + string(c.Raw)
	if h.names[key] == "" {
		n := 1
		for other := range h.names {
			if strings.HasPrefix(other, kind) {
				n++
			}
		}
		h.names[key] = fmt.Sprintf("%s %d", kind, n)
	}
	return h.names[key]
}

// want compares descriptions of writes.
func (h *house) want(got []string, want ...string) {
	h.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// wantIdle checks that the reconcile of a replica is a no-op that sends no request.
func (h *house) wantIdle(r *replica) {
	h.t.Helper()
	h.api.Forget()
	if err := r.pass(); err != nil {
		h.t.Error(err)
	}
	for _, action := range append(h.api.Kube.Actions(), h.api.CRD.Actions()...) {
		h.t.Errorf("an idle replica sends %s %s", action.GetVerb(), action.GetResource().Resource)
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
	bundle := parseBundle(h.api.Definition().Spec.Conversion.Webhook.ClientConfig.CABundle, h.clock.Now())
	if !trusts(bundle, certificate.Leaf, h.clock.Now()) {
		h.t.Errorf("the API server does not trust %s", want)
	}
}
