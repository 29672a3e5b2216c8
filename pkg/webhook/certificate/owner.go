package certificate

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/certificates"
)

// ErrForeign is wrapped by the error of Ready while another installation of Windlass serves the webhook.
var ErrForeign = errors.New("another installation of Windlass serves the conversion webhook")

// Lead tells the Source that its installation leads in this cluster. From then on, the Source may take over the
// webhook from another installation.
func (s *Source) Lead() {
	s.leads.Store(true)
	s.wake()
}

// foreign reports whether the API server calls another installation. If so, only the installation that leads may change
// the clientConfig. The leading installation replaces both the address and the caBundle. After that, the clientConfig
// is foreign to all other installations, so no two installations overwrite each other in turn.
func (o *Options) foreign(config *apiextensionsv1.WebhookClientConfig, c certificates.Content) bool {
	// A CustomResourceDefinition that was applied again names the Service in its manifest and keeps our CAs: its
	// clientConfig is not foreign. If our certificate is valid for the host in the clientConfig, then a replica
	// with other options shares the Secret and serves at this host: the clientConfig is foreign.
	reapplied := c.Serving != nil && c.Serving.Leaf.VerifyHostname(hostOf(config)) != nil &&
		bytes.Equal(config.CABundle, certificates.EncodeBundle(c.Bundle...))
	return len(config.CABundle) > 0 && !o.addressed(config) && !reapplied
}

// standBy records for Ready that the installation at host serves the webhook. It logs each new host once.
func (s *Source) standBy(ctx context.Context, host string) {
	if old := s.elsewhere.Swap(&host); old == nil || *old != host {
		klog.FromContext(ctx).Info("Not serving conversions, because the CustomResourceDefinition names the webhook "+
			"of another installation of Windlass", "crd", CRDName, "host", host)
	}
}

// address returns the address of this installation.
func (o *Options) address() *apiextensionsv1.WebhookClientConfig {
	if o.URL != "" {
		return &apiextensionsv1.WebhookClientConfig{URL: &o.URL}
	}
	return &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{
		Namespace: o.Namespace, Name: o.ServiceName, Path: ptr.To(Path),
	}}
}

// addressed reports whether config has the address of this installation. For a Service, it ignores the path.
func (o *Options) addressed(config *apiextensionsv1.WebhookClientConfig) bool {
	address := o.address()
	return ptr.Equal(config.URL, address.URL) && hostOf(config) == hostOf(address)
}

// isDesired reports whether config has the address of this installation and the CAs in bundle.
func (o *Options) isDesired(config *apiextensionsv1.WebhookClientConfig, bundle []byte) bool {
	return o.addressed(config) && bytes.Equal(config.CABundle, bundle) &&
		(config.Service == nil || ptr.Deref(config.Service.Path, "") == Path)
}

// hostOf returns the host for which the API server requires a certificate.
func hostOf(config *apiextensionsv1.WebhookClientConfig) string {
	if config.Service != nil {
		return config.Service.Name + "." + config.Service.Namespace + ".svc"
	}
	if u, err := url.Parse(ptr.Deref(config.URL, "")); err == nil {
		return u.Hostname()
	}
	return ""
}

// hosts returns the hosts of the next serving certificate. The first one is the host of this installation. If the
// current certificate is valid for the host that the API server calls, the next certificate is valid for this host too,
// because replicas with other options may serve there.
func (o *Options) hosts(config *apiextensionsv1.WebhookClientConfig, c certificates.Content) []string {
	host := hostOf(o.address())
	hosts := []string{host}
	if o.URL == "" {
		hosts = append(hosts, host+".cluster.local")
	}
	called := hostOf(config)
	if c.Serving != nil && c.Serving.Leaf.VerifyHostname(called) == nil && !slices.Contains(hosts, called) {
		hosts = append(hosts, called)
	}
	return hosts
}
