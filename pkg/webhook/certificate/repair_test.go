package certificate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/webhook/internal/webhooktest"
)

func TestForeignSecretIsNotChanged(t *testing.T) {
	h := newHouse(t)
	foreign := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: SecretName, Labels: map[string]string{"app": "other"}},
	}
	h.api.Put(foreign)
	r := h.replica()
	const want = "Secret windlass-system/windlass-webhook-certificate does not belong to Windlass"
	if err := r.reconcile(h.ctx); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %s", err, want)
	}
	h.want(h.written())
	h.api.Delete(foreign)
	h.want(r.rest(), "Secret: CA 1; certificate 1 by CA 1", "CRD: CA 1")
}

func TestReconcileRepairsSecret(t *testing.T) {
	other := func(h *house) map[string][]byte { // the Secret of another installation
		other := newHouse(h.t)
		other.replica().rest()
		return other.secret().Data
	}
	tests := []struct {
		name  string
		spoil func(*house, map[string][]byte)
		want  []string
	}{
		{
			name:  "the certificate is unreadable: the same CA makes another",
			spoil: func(_ *house, data map[string][]byte) { data["tls.crt"] = []byte("x") },
			want:  []string{"Secret: CA 1; certificate 2 by CA 1"},
		},
		{
			name: "the certificate is from another CA: ours makes another",
			spoil: func(h *house, data map[string][]byte) {
				o := other(h)
				data["tls.crt"], data["tls.key"] = o["tls.crt"], o["tls.key"]
			},
			want: []string{"Secret: CA 1; certificate 2 by CA 1"},
		},
		{
			name:  "the CA's key belongs to another CA: a new CA comes in, and the certificate works until then",
			spoil: func(h *house, data map[string][]byte) { data["ca.key"] = other(h)["ca.key"] },
			want:  []string{"Secret: CA 2, CA 1; certificate 1 by CA 1", "CRD: CA 2, CA 1"},
		},
		{
			name:  "the CAs are unreadable: the one that the API server trusts is taken over",
			spoil: func(_ *house, data map[string][]byte) { data["ca.crt"] = []byte("x") },
			want:  []string{"Secret: CA 2, CA 1; certificate 2 by CA 2", "CRD: CA 2, CA 1"},
		},
		{
			name:  "an invalid CA follows a valid one: it is removed",
			spoil: func(_ *house, data map[string][]byte) { data["ca.crt"] = append(data["ca.crt"], data["tls.crt"]...) },
			want:  []string{"Secret: CA 1; certificate 1 by CA 1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t)
			r := h.replica()
			r.rest()
			h.describe(h.secret()) // names the first CA and the first certificate
			secret := h.secret()
			tt.spoil(h, secret.Data)
			h.api.Put(secret)
			h.want(r.rest(), tt.want...)
			for range 2 { // the other CAs are removed
				h.wantServed(r, r.served())
				h.clock.Step(overlap)
				r.rest()
			}
			h.clock.Step(100 * day)
			r.rest()
			if err := r.Ready(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReconcileReplacesExpiredCertificates(t *testing.T) {
	h := newHouse(t)
	r := h.replica()
	r.rest()
	h.clock.Step(366 * day)
	if r.Ready() == nil {
		t.Error("it is ready with an expired certificate")
	}
	h.want(r.rest(), "Secret: CA 1; certificate 2 by CA 1")
	h.clock.Step(authorityDue) // the API servers do not trust the next CA yet
	h.want(r.rest(), "Secret: CA 2, CA 1; certificate 3 by CA 1", "CRD: CA 2, CA 1")
	h.wantServed(r, "certificate 3")
	h.clock.Step(11 * 365 * day)
	h.want(r.rest(), "Secret: CA 3; certificate 4 by CA 3", "CRD: CA 3")
	h.wantServed(r, "certificate 4")
}

func TestReconcileRepairsCustomResourceDefinition(t *testing.T) {
	const url = "https://example.com:9443/convert"
	atService := func(port int32) *apiextensionsv1.WebhookClientConfig {
		return &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{
			Namespace: namespace, Name: serviceName, Path: ptr.To(Path), Port: &port,
		}}
	}
	atURL := &apiextensionsv1.WebhookClientConfig{URL: ptr.To(url)}
	withoutPort := atService(0)
	withoutPort.Service.Port = nil
	tests := []struct {
		name  string
		url   string
		leads bool
		spoil func(*apiextensionsv1.WebhookClientConfig)
		want  *apiextensionsv1.WebhookClientConfig
	}{
		{
			name:  "after a user has applied it again, without a caBundle",
			spoil: func(c *apiextensionsv1.WebhookClientConfig) { c.CABundle = nil },
			want:  atService(443),
		},
		{
			name:  "when its caBundle is somebody else's",
			spoil: func(c *apiextensionsv1.WebhookClientConfig) { c.CABundle = []byte("x") },
			want:  atService(443),
		},
		{
			name: "when it names another Service; its port is whatever the Service has",
			spoil: func(c *apiextensionsv1.WebhookClientConfig) {
				c.Service.Name, c.Service.Namespace, c.Service.Port = "other", "other", ptr.To[int32](8443)
			},
			want: atService(8443),
		},
		{
			name:  "when its path is another",
			spoil: func(c *apiextensionsv1.WebhookClientConfig) { c.Service.Path = nil },
			want:  atService(443),
		},
		{
			name:  "when it still has the URL of a controller that ran out of cluster",
			spoil: func(c *apiextensionsv1.WebhookClientConfig) { c.URL, c.Service = ptr.To(url), nil },
			want:  withoutPort,
		},
		{
			name:  "when the controller runs out of cluster",
			url:   url,
			spoil: func(*apiextensionsv1.WebhookClientConfig) {},
			want:  atURL,
		},
		{
			name: "when the URL is another on this host, where somebody else may serve, once it leads",
			url:  url, leads: true,
			spoil: func(c *apiextensionsv1.WebhookClientConfig) {
				c.URL, c.Service = ptr.To("https://example.com/other"), nil
			},
			want: atURL,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t)
			r := h.replicaOf(Options{Namespace: namespace, URL: tt.url})
			if tt.leads {
				r.Lead()
			}
			r.rest()
			crd := webhooktest.NewCRD()
			config := crd.Spec.Conversion.Webhook.ClientConfig
			config.CABundle = h.secret().Data["ca.crt"]
			tt.spoil(config)
			h.api.Put(crd)
			h.want(r.rest(), "CRD: CA 1")

			got := h.api.Definition()
			*config = *tt.want
			config.CABundle, crd.ResourceVersion = h.secret().Data["ca.crt"], got.ResourceVersion
			if diff := cmp.Diff(crd, got); diff != "" {
				t.Errorf("the CustomResourceDefinition (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReconcileRejectsCustomResourceDefinitionWithoutWebhook(t *testing.T) {
	h := newHouse(t)
	crd := h.api.Definition()
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	h.api.Put(crd)
	if err := h.replica().reconcile(h.ctx); err == nil || !strings.Contains(err.Error(), "has no conversion webhook") {
		t.Errorf("conversion None: %v", err)
	}
	h.want(h.written())
}

func TestReplicasWithDifferentHostsShareCertificate(t *testing.T) {
	h := newHouse(t)
	inside := h.replica()
	outside := h.replicaOf(Options{Namespace: namespace, URL: "https://[2001:db8::1]:9443/convert"})
	inside.rest()
	h.want(outside.rest()) // the API server calls the replica inside
	outside.Lead()
	h.want(outside.rest(), "Secret: CA 1; certificate 2 by CA 1", "CRD: CA 1")
	certificate, _ := outside.GetCertificate(nil)
	for _, host := range []string{"2001:db8::1", "windlass-webhook.windlass-system.svc"} {
		if err := certificate.Leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	h.want(inside.rest())
	inside.Lead()
	h.want(inside.rest(), "CRD: CA 1") // writes the Service again
	h.clock.Step(244 * day)
	h.want(inside.rest(), "Secret: CA 1; certificate 3 by CA 1")
	certificate, _ = inside.GetCertificate(nil)
	if len(certificate.Leaf.IPAddresses) != 0 {
		t.Errorf("a host that is no longer wanted is still there after the renewal: %v", certificate.Leaf.IPAddresses)
	}
}
