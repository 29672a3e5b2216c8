package certificate

import (
	"crypto/x509"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// create returns the step that creates the Secret with a new CA and a new serving certificate. The CAs that the
// API servers trust now stay in the bundle for a while: replicas may still serve with the certificate of a Secret
// that was deleted.
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
	return step{what: "Created a CA and a serving certificate", create: s.update}, nil
}

// renewAuthority returns the step that adds a new CA to the Secret, first in the bundle. The serving certificate
// stays the same.
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
		what:   "Created a new CA",
		update: map[string][]byte{bundleKey: encodeBundle(bundle), authorityKeyKey: key},
	}, nil
}

// renewServing returns the step that replaces the serving certificate. If the current certificate is not due for
// renewal yet, the new certificate is also valid for the current hosts, because replicas with other options may
// need them.
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
		what:   "Created a new serving certificate",
		update: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	}, nil
}
