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

// Lead tells the Source that its installation is the one that works in this cluster. From
// then on it may take the conversion over from another installation.
func (s *Source) Lead() {
	s.leads.Store(true)
	select {
	case s.led <- struct{}{}:
	default: // it was told before
	}
}

// foreign reports whether another installation converts, so that only the one that leads may
// change the clientConfig. Whoever writes makes the whole clientConfig its own, so that the
// others see a foreign one from then on, and no two take it from each other in turn.
func (o *Options) foreign(config apiextensionsv1.WebhookClientConfig, c content, trusted []*x509.Certificate) bool {
	if len(config.CABundle) == 0 || config.URL == nil && config.Service == nil || o.addressed(config) {
		return false
	}
	// A CustomResourceDefinition that is applied anew names the Service that it was shipped
	// with, and keeps our CAs. A certificate for that very address is shared with somebody
	// who serves there.
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

// hostOf returns the host that the API server takes the webhook for.
func hostOf(config apiextensionsv1.WebhookClientConfig) string {
	if config.Service != nil {
		return config.Service.Name + "." + config.Service.Namespace + ".svc"
	}
	if u, err := url.Parse(*config.URL); err == nil {
		return u.Hostname()
	}
	return ""
}

// note keeps for Ready whether another installation converts, and logs it once.
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
