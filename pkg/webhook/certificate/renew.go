package certificate

import (
	"cmp"
	"crypto/x509"
	"slices"
	"time"
)

// The lifetimes of new certificates.
const (
	servingLifetime   = 365 * 24 * time.Hour
	authorityLifetime = 10 * 365 * 24 * time.Hour
)

// overlap is how long the API servers trust a CA after a new CA or serving certificate has made the old CA unnecessary.
const overlap = time.Hour

// renew returns the content that the Secret must have in place of c. A new CA signs nothing until the next serving
// certificate is due, so that the API servers trust the CA long before it signs. Only a CA that replaces a lost CA
// signs at once. A new serving certificate is valid for all hosts. A serving certificate is replaced early if it lacks
// the first host, but not if it lacks another host.
func renew(c content, hosts []string, now time.Time) (content, error) {
	var err error
	issuer := c.signer
	if c.signer == nil || isDue(c.signer.Leaf, now) {
		if c.signer, err = newAuthority(now); err != nil {
			return c, err
		}
	}
	if c.serving == nil || isDue(c.serving.Leaf, now) || c.serving.Leaf.VerifyHostname(hosts[0]) != nil {
		if c.serving, err = issue(cmp.Or(issuer, c.signer), hosts, now); err != nil {
			return c, err
		}
	}
	c.bundle = needed(c, now)
	return c, nil
}

// maxRecent is the size of the bundle up to which recent CAs are added. These CAs are trusted only because replicas may
// still serve with their certificates. Without this limit, a tool that deletes the Secret again and again would make
// the bundle too large to be stored.
const maxRecent = 8

// needed returns the CAs that the API servers must trust, newest first, without duplicates: the signing CA, the CA of
// the serving certificate and, during overlap, recent CAs up to maxRecent.
func needed(c content, now time.Time) []*x509.Certificate {
	overlaps := now.Before(issuedAt(c.serving.Leaf).Add(overlap)) || now.Before(issuedAt(c.signer.Leaf).Add(overlap))
	bundle := []*x509.Certificate{c.signer.Leaf}
	for _, ca := range c.bundle {
		inUse := c.serving.Leaf.CheckSignatureFrom(ca) == nil
		recent := overlaps && len(bundle) < maxRecent
		if (inUse || recent) && !slices.ContainsFunc(bundle, ca.Equal) {
			bundle = append(bundle, ca)
		}
	}
	return bundle
}

// isDue reports whether two thirds of the lifetime of a certificate are over.
func isDue(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotAfter.Add(-c.NotAfter.Sub(issuedAt(c)) / 3))
}
