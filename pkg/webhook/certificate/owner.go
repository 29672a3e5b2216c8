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

// ErrForeign is wrapped by the error of Ready while another installation of Windlass serves the webhook.
var ErrForeign = errors.New("another installation of Windlass serves the conversion webhook")

// Lead tells the Source that its installation leads in this cluster. From then on, the Source may take over the
// webhook from another installation.
func (s *Source) Lead() {
	s.leads.Store(true)
	select {
	case s.led <- struct{}{}:
	default: // Lead was called before
	}
}

// foreign reports whether the API server calls another installation. Then only the installation that leads may
// change the clientConfig. That installation replaces both the address and the caBundle. The clientConfig is then
// foreign to all other installations, so no two installations overwrite each other in turn.
func (o *Options) foreign(config apiextensionsv1.WebhookClientConfig, c content, trusted []*x509.Certificate) bool {
	if len(config.CABundle) == 0 || config.URL == nil && config.Service == nil || o.addressed(config) {
		return false
	}
	// A CustomResourceDefinition that was applied again names the Service in its manifest and keeps our CAs: its
	// clientConfig is not foreign. If our certificate is valid for the host in the clientConfig, then a replica
	// with other options shares the Secret and serves at this host: the clientConfig is foreign.
	if c.signer == nil || c.serving == nil || c.serving.Leaf.VerifyHostname(hostOf(config)) == nil {
		return true
	}
	return !slices.ContainsFunc(trusted, c.signer.Leaf.Equal) ||
		slices.ContainsFunc(trusted, func(ca *x509.Certificate) bool { return !slices.ContainsFunc(c.bundle, ca.Equal) })
}

// addressed reports whether config has the address of this installation.
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

// note records for Ready whether another installation serves the webhook. It logs each new host once.
func (s *Source) note(ctx context.Context, foreign bool, crd *apiextensionsv1.CustomResourceDefinition) {
	if !foreign {
		s.elsewhere.Store(nil)
		return
	}
	host := hostOf(*crd.Spec.Conversion.Webhook.ClientConfig)
	if old := s.elsewhere.Swap(&host); old == nil || *old != host {
		klog.FromContext(ctx).Info("Not serving conversions, because the CustomResourceDefinition names the webhook "+
			"of another installation of Windlass",
			"crd", crd.Name, "host", host)
	}
}

// elsewhereError returns an error while another installation serves the webhook.
func (s *Source) elsewhereError() error {
	host := s.elsewhere.Load()
	if host == nil {
		return nil
	}
	return fmt.Errorf("%w: CustomResourceDefinition %s names the host %s of the other installation; uninstall one of "+
		"the two installations",
		ErrForeign, s.options.CRDName, *host)
}
