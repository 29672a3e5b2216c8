package certificate

import (
	"crypto/x509"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// create creates a CA and a serving certificate. The CAs that the API servers trust now stay in the bundle
// for a while: replicas may still serve the certificate of a Secret that was deleted.
func (o *Options) create(trusted []*x509.Certificate, now time.Time) (step, error) {
	s, err := o.renewAuthority(content{}, trusted, now)
	if err != nil {
		return step{}, err
	}
	serving, err := o.renewServing(parseContent(s.update, now), now)
	if err != nil {
		return step{}, err
	}
	maps.Copy(s.update, serving.update)
	return step{what: "Made a CA and a serving certificate", create: s.update}, nil
}

// renewAuthority creates a new CA and puts it first in the bundle. The CA has not signed anything yet.
func (o *Options) renewAuthority(c content, trusted []*x509.Certificate, now time.Time) (step, error) {
	ca, err := newAuthority(now, o.AuthorityLifetime)
	if err != nil {
		return step{}, err
	}
	_, key, err := ca.encode()
	if err != nil {
		return step{}, err
	}
	bundle := []*x509.Certificate{ca.certificate}
	for _, other := range slices.Concat(c.bundle, trusted) {
		if !slices.ContainsFunc(bundle, other.Equal) {
			bundle = append(bundle, other)
		}
	}
	return step{
		what:   "Made a new CA",
		update: map[string][]byte{bundleKey: encodeBundle(bundle), authorityKeyKey: key},
	}, nil
}

// renewServing creates a new serving certificate. If the current certificate is not yet due for renewal, the
// new one keeps its hosts, since replicas with other options might need them.
func (o *Options) renewServing(c content, now time.Time) (step, error) {
	hosts := o.hosts()
	if c.serving != nil && now.Before(renewAt(c.serving.Leaf)) {
		for _, host := range c.hosts() {
			if !slices.Contains(hosts, host) {
				hosts = append(hosts, host)
			}
		}
	}
	serving, err := c.signer.issue(hosts, now, o.ServingLifetime)
	if err != nil {
		return step{}, err
	}
	certificate, key, err := serving.encode()
	if err != nil {
		return step{}, err
	}
	return step{
		what:   "Made a new serving certificate",
		update: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	}, nil
}
