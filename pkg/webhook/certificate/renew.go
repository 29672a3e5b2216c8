package certificate

import (
	"crypto/x509"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// create makes everything anew. What the API servers trust now stays trusted for
// a while: replicas may still serve a certificate whose Secret was deleted.
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

// renewAuthority makes a new CA, which signs nothing yet.
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

// renewServing makes a new serving certificate. Before its time it is only
// renewed for hosts that it lacks; then it keeps those it has, since replicas
// that were started with other options might want them.
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
