package certificate

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/klog/v2"
)

// ErrForeign is the error of Ready while another installation of Windlass converts.
var ErrForeign = errors.New("another installation of Windlass converts")

// Lead tells the Source that its installation leads in this cluster. From then on it may take over the
// conversion from another installation.
func (s *Source) Lead() {
	s.leads.Store(true)
	select {
	case s.led <- struct{}{}:
	default: // Lead was called before
	}
}

// foreign reports whether another installation converts. Then only the installation that leads may change the
// clientConfig. A write replaces the whole clientConfig, so that it is foreign to all other installations
// from then on, and no two installations overwrite each other in turn.
func (o *Options) foreign(config apiextensionsv1.WebhookClientConfig, c content, trusted []*x509.Certificate) bool {
	if len(config.CABundle) == 0 || config.URL == nil && config.Service == nil || o.addressed(config) {
		return false
	}
	// If the CustomResourceDefinition is applied again, it names the Service in its manifest and keeps our
	// CAs: it is not foreign. It is foreign if our certificate is valid for the host that it names: then a
	// replica with other options shares the Secret and serves there.
	if c.signer == nil || c.serving == nil || c.serving.Leaf.VerifyHostname(hostOf(config)) == nil {
		return true
	}
	return !slices.ContainsFunc(trusted, c.signer.certificate.Equal) ||
		slices.ContainsFunc(trusted, func(ca *x509.Certificate) bool { return !slices.ContainsFunc(c.bundle, ca.Equal) })
}

// addressed reports whether the API server calls this installation.
func (o *Options) addressed(config apiextensionsv1.WebhookClientConfig) bool {
	if o.URL != "" {
		return config.URL != nil && *config.URL == o.URL
	}
	return config.Service != nil && config.Service.Namespace == o.Namespace && config.Service.Name == o.ServiceName
}

// hostOf returns the host for which the API server requires a certificate.
func hostOf(config apiextensionsv1.WebhookClientConfig) string {
	if config.Service != nil {
		return config.Service.Name + "." + config.Service.Namespace + ".svc"
	}
	if u, err := url.Parse(*config.URL); err == nil {
		return u.Hostname()
	}
	return ""
}

// note records for Ready whether another installation converts. It logs each new host once.
func (s *Source) note(ctx context.Context, foreign bool, crd *apiextensionsv1.CustomResourceDefinition) {
	if !foreign {
		s.elsewhere.Store(nil)
		return
	}
	host := hostOf(*crd.Spec.Conversion.Webhook.ClientConfig)
	if old := s.elsewhere.Swap(&host); old == nil || *old != host {
		klog.FromContext(ctx).Info("Another installation of Windlass converts; this one leaves the CustomResourceDefinition alone, and converts nothing",
			"crd", crd.Name, "host", host)
	}
}

// elsewhereError returns the error of Ready while another installation converts, or nil.
func (s *Source) elsewhereError() error {
	host := s.elsewhere.Load()
	if host == nil {
		return nil
	}
	return fmt.Errorf("%w: CustomResourceDefinition %s names the host %s, which is not that of this installation; remove one of the two",
		ErrForeign, s.options.CRDName, *host)
}
