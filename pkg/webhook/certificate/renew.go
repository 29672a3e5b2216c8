package certificate

import (
	"crypto/x509"
	"slices"
	"time"
)

// renew returns what the Secret must contain, if it has the content c. trusted are the CAs that the API servers trust
// for this installation; c may lack them, because somebody has deleted or damaged the Secret. The order of the renewals
// matters: a serving certificate that is due is signed by a CA that the API servers have trusted for long, and a new CA
// signs nothing until the next serving certificate is due. Only a CA that replaces a lost one signs at once.
func (o *Options) renew(c content, trusted []*x509.Certificate, now time.Time) (content, error) {
	var err error
	lost := c.signer == nil
	if lost {
		c.bundle = append(slices.Clone(c.bundle), trusted...)
		if c, err = o.renewAuthority(c, now); err != nil {
			return c, err
		}
	}
	if c.serving == nil || isDue(c.serving.Leaf, now) || !covers(c.serving.Leaf, o.hosts()) {
		if c.serving, err = issue(c.signer, o.hostsAfter(c, now), now, o.ServingLifetime); err != nil {
			return c, err
		}
	}
	if !lost && isDue(c.signer.Leaf, now) {
		if c, err = o.renewAuthority(c, now); err != nil {
			return c, err
		}
	}
	c.bundle = needed(c, now)
	return c, nil
}

// renewAuthority adds a new signing CA to c, first in the bundle.
func (o *Options) renewAuthority(c content, now time.Time) (content, error) {
	ca, err := newAuthority(now, o.AuthorityLifetime)
	if err != nil {
		return c, err
	}
	c.signer, c.bundle = ca, append([]*x509.Certificate{ca.Leaf}, c.bundle...)
	return c, nil
}

// maxRecent is the largest number of CAs that are trusted only because replicas may still serve with certificates of
// these CAs. Without this limit, a tool that deletes the Secret again and again would make the bundle too large to be
// stored.
const maxRecent = 8

// needed returns the CAs that the API servers must trust, newest first, without duplicates: the signing CA, the CA of
// the serving certificate, and for the time of overlap maxRecent others.
func needed(c content, now time.Time) []*x509.Certificate {
	var bundle []*x509.Certificate
	overlaps := now.Before(issuedAt(c.serving.Leaf).Add(overlap)) || now.Before(issuedAt(c.signer.Leaf).Add(overlap))
	recent := 0
	for _, ca := range c.bundle {
		required := ca.Equal(c.signer.Leaf) || c.serving.Leaf.CheckSignatureFrom(ca) == nil
		if slices.ContainsFunc(bundle, ca.Equal) || !required && (!overlaps || recent == maxRecent) {
			continue
		}
		if !required {
			recent++
		}
		bundle = append(bundle, ca)
	}
	return bundle
}

// hostsAfter returns the hosts of the next serving certificate. If the current certificate is not due for renewal yet,
// they include its hosts, because replicas with other options may need them.
func (o *Options) hostsAfter(c content, now time.Time) []string {
	hosts := o.hosts()
	if c.serving == nil || isDue(c.serving.Leaf, now) {
		return hosts
	}
	for _, host := range hostsOf(c.serving.Leaf) {
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// isDue reports whether a certificate is due for renewal.
func isDue(c *x509.Certificate, now time.Time) bool { return !now.Before(renewAt(c)) }
