package certificate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/webhook/internal/webhooktest"
)

func TestForeignSecretIsNotChanged(t *testing.T) {
	h := newHouse(t)
	foreign := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: DefaultSecretName, Labels: map[string]string{"app": "other"},
		},
		Data: map[string][]byte{"password": []byte("x")},
	}
	h.api.Put(foreign)
	before := h.secret()
	r := h.replica(Options{})
	for range 3 {
		err := r.pass()
		if err == nil ||
			!strings.Contains(err.Error(), "Secret windlass-system/windlass-webhook-certificate does not belong to Windlass") {
			t.Errorf("got error %v", err)
		}
	}
	h.want(h.written())
	if diff := cmp.Diff(before, h.secret()); diff != "" {
		t.Errorf("the Secret is different (-before +after):\n%s", diff)
	}
	h.api.Delete(foreign)
	h.want(r.rest(), "Secret: CA 1; certificate 1 by CA 1", "CRD: CA 1")
}

func TestReconcileRepairsSecret(t *testing.T) {
	other := func(h *house) map[string][]byte { return newSecretOf(h, h.replica(Options{})).Data }
	tests := []struct {
		name  string
		spoil func(*house, map[string][]byte)
		want  []string
	}{
		{
			name:  "all is gone: the CA that the API server trusts stays trusted for the replicas that run",
			spoil: func(_ *house, data map[string][]byte) { clear(data) },
			want:  []string{"Secret: CA 2, CA 1; certificate 2 by CA 2", "CRD: CA 2, CA 1"},
		},
		{
			name:  "the certificate is unreadable: the same CA makes another",
			spoil: func(_ *house, data map[string][]byte) { data["tls.crt"] = []byte("x") },
			want:  []string{"Secret: CA 1; certificate 2 by CA 1"},
		},
		{
			name:  "the key belongs to another certificate: the same CA makes both",
			spoil: func(h *house, data map[string][]byte) { data["tls.key"] = other(h)["tls.key"] },
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
			name:  "the CA's key is unreadable: a new CA comes in, and the certificate works until then",
			spoil: func(_ *house, data map[string][]byte) { data["ca.key"] = []byte("x") },
			want:  []string{"Secret: CA 2, CA 1; certificate 1 by CA 1", "CRD: CA 2, CA 1"},
		},
		{
			name:  "the CA's key is a certificate",
			spoil: func(_ *house, data map[string][]byte) { data["ca.key"] = data["ca.crt"] },
			want:  []string{"Secret: CA 2, CA 1; certificate 1 by CA 1", "CRD: CA 2, CA 1"},
		},
		{
			name:  "the CA's key belongs to another CA",
			spoil: func(h *house, data map[string][]byte) { data["ca.key"] = other(h)["ca.key"] },
			want:  []string{"Secret: CA 2, CA 1; certificate 1 by CA 1", "CRD: CA 2, CA 1"},
		},
		{
			name:  "the CAs are unreadable: the one that the API server trusts is taken over",
			spoil: func(_ *house, data map[string][]byte) { data["ca.crt"] = []byte("x") },
			want:  []string{"Secret: CA 2, CA 1; certificate 2 by CA 2", "CRD: CA 2, CA 1"},
		},
		{
			name:  "invalid CA after a valid one is ignored",
			spoil: func(_ *house, data map[string][]byte) { data["ca.crt"] = append(data["ca.crt"], data["tls.crt"]...) },
			want:  nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t)
			r := h.replica(Options{})
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
			h.wantIdle(r)
			if err := r.Ready(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReconcileReplacesExpiredCertificates(t *testing.T) {
	h := newHouse(t)
	r := h.replica(Options{})
	r.rest()
	h.clock.Step(366 * day)
	if r.Ready() == nil {
		t.Error("it is ready with an expired certificate")
	}
	h.want(r.rest(), "Secret: CA 1; certificate 2 by CA 1")
	h.clock.Step(11 * 365 * day)
	h.want(r.rest(),
		"Secret: CA 2; certificate 3 by CA 2",
		"CRD: CA 2")
	h.wantServed(r, "certificate 3")
}

func TestReconcileRepairsCustomResourceDefinition(t *testing.T) {
	url, port := "https://example.com:9443/convert", int32(8443)
	service := func(c *apiextensionsv1.WebhookClientConfig) *apiextensionsv1.ServiceReference { return c.Service }
	tests := []struct {
		name    string
		options Options
		leads   bool
		spoil   func(*apiextensionsv1.WebhookClientConfig)
		url     *string
		service bool
		port    int32
	}{
		{
			name:    "when it is applied anew, without a caBundle",
			spoil:   func(c *apiextensionsv1.WebhookClientConfig) { c.CABundle = nil },
			service: true, port: 443,
		},
		{
			name:    "when its caBundle is somebody else's",
			spoil:   func(c *apiextensionsv1.WebhookClientConfig) { c.CABundle = []byte("x") },
			service: true, port: 443,
		},
		{
			name: "when it names another Service; its port is whatever the Service has",
			spoil: func(c *apiextensionsv1.WebhookClientConfig) {
				service(c).Name, service(c).Namespace, service(c).Port = "other", "other", &port
			},
			service: true, port: port,
		},
		{
			name:    "when its path is another",
			spoil:   func(c *apiextensionsv1.WebhookClientConfig) { service(c).Path = nil },
			service: true, port: 443,
		},
		{
			name:    "when it still has the URL of a controller that ran out of cluster",
			spoil:   func(c *apiextensionsv1.WebhookClientConfig) { c.URL, c.Service = &url, nil },
			service: true,
		},
		{
			name:    "when the controller runs out of cluster",
			options: Options{URL: url},
			spoil:   func(*apiextensionsv1.WebhookClientConfig) {},
			url:     &url,
		},
		{
			name:    "when the URL is another on this host, where somebody else may serve, once it leads",
			options: Options{URL: url}, leads: true,
			spoil: func(c *apiextensionsv1.WebhookClientConfig) {
				other := "https://example.com/other"
				c.URL, c.Service = &other, nil
			},
			url: &url,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t)
			r := h.replica(tt.options)
			if tt.leads {
				r.Lead()
			}
			r.rest()
			crd := webhooktest.NewCRD()
			crd.Spec.Conversion.Webhook.ClientConfig.CABundle = h.secret().Data["ca.crt"]
			tt.spoil(crd.Spec.Conversion.Webhook.ClientConfig)
			h.api.Put(crd)
			h.want(r.rest(), "CRD: CA 1")
			h.wantIdle(r)

			got := h.api.Definition()
			config := *got.Spec.Conversion.Webhook.ClientConfig
			if diff := cmp.Diff(tt.url, config.URL); diff != "" {
				t.Errorf("url (-want +got):\n%s", diff)
			}
			if s := config.Service; tt.service != (s != nil) {
				t.Errorf("service is %v", s)
			} else if s != nil && (s.Namespace != namespace || s.Name != DefaultServiceName || *s.Path != Path ||
				s.Port != nil && *s.Port != tt.port) {
				t.Errorf("service is %v", s)
			}
			*got.Spec.Conversion.Webhook.ClientConfig = *crd.Spec.Conversion.Webhook.ClientConfig
			got.ResourceVersion = crd.ResourceVersion
			if diff := cmp.Diff(crd, got); diff != "" {
				t.Errorf("something else is changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestReconcileRejectsUnsuitableCustomResourceDefinition(t *testing.T) {
	h := newHouse(t)
	crd := h.api.Definition()
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	h.api.Put(crd)
	if err := h.replica(Options{}).pass(); err == nil || !strings.Contains(err.Error(), "has no conversion webhook") {
		t.Errorf("conversion None: %v", err)
	}
	if err := h.replica(Options{CRDName: "others.example.com"}).pass(); err == nil ||
		!strings.Contains(err.Error(), "others.example.com") {
		t.Errorf("no such CustomResourceDefinition: %v", err)
	}
	h.want(h.written())
}

func TestCertificateIsIssuedForHostOfURL(t *testing.T) {
	for url, host := range map[string]string{
		"https://example.com":          "example.com",
		"https://localhost:9443/":      "localhost",
		"https://192.0.2.1:9443/x":     "192.0.2.1",
		"https://[2001:db8::1]:9443/x": "2001:db8::1",
	} {
		h := newHouse(t)
		r := h.replica(Options{URL: url})
		r.rest()
		certificate, err := r.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := certificate.Leaf.VerifyHostname(host); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestReplicasWithDifferentHostsShareCertificate(t *testing.T) {
	h := newHouse(t)
	inside, outside := h.replica(Options{}), h.replica(Options{URL: "https://192.0.2.1:9443"})
	inside.rest()
	h.want(outside.rest()) // the API server calls the replica inside
	outside.Lead()
	h.want(outside.rest(), "Secret: CA 1; certificate 2 by CA 1", "CRD: CA 1")
	h.want(inside.rest())
	inside.Lead()
	h.want(inside.rest(), "CRD: CA 1") // writes the Service again
	h.clock.Step(244 * day)
	h.want(inside.rest(), "Secret: CA 1; certificate 3 by CA 1")
	certificate, _ := inside.GetCertificate(nil)
	if len(certificate.Leaf.IPAddresses) != 0 {
		t.Errorf("a host that is no longer wanted is still there after the renewal: %v", certificate.Leaf.IPAddresses)
	}
}

func TestNewRejectsInvalidOptions(t *testing.T) {
	for want, options := range map[string]Options{
		"the namespace of the webhook certificate is required": {},
		"must have the form https":                             {Namespace: namespace, URL: "http://example.com"},
		"must have the form https://HOST":                      {Namespace: namespace, URL: "https://"},
		"invalid":                                              {Namespace: namespace, URL: "https://a b"},
		"must not have a user":                                 {Namespace: namespace, URL: "https://u@example.com"},
		"must not have a user, a query":                        {Namespace: namespace, URL: "https://example.com?a=b"},
		"no duration may be negative: ":                        {Namespace: namespace, ServingLifetime: -time.Second},
	} {
		if _, err := New(nil, nil, options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", options, err, want)
		}
	}
}
