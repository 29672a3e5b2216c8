package certificates

import (
	"cmp"
	"crypto/x509"
	"slices"
	"time"
)

// The lifetimes of new certificates.
const (
	ServingLifetime   = 365 * 24 * time.Hour
	AuthorityLifetime = 10 * 365 * 24 * time.Hour
)

// Options say how Renew creates certificates.
type Options struct {
	// Name is the common name of serving certificates. The common name of a CA is Name, followed by "-ca@" and the time.
	Name string
	// Hosts are the DNS names and IP addresses of a serving certificate. Renew replaces a certificate early if it lacks
	// the first host, but not if it lacks another host.
	Hosts []string
	// Overlap is how long clients may take to read a new CA. A new CA signs nothing for this time, and a CA that signs
	// nothing any more stays trusted for this time. Overlap is much shorter than ServingLifetime.
	Overlap time.Duration
}

// Renew returns the content that the Secret must have in place of c. It replaces certificates after two thirds of their
// lifetimes, and creates certificates that c lacks. After the CA was replaced, the serving certificate stays for the
// overlap.
func (c Content) Renew(o Options, now time.Time) (Content, error) {
	signer, serving := c.Signer, c.Serving
	var err error
	if c.Signer == nil || isDue(c.Signer.Leaf, now) {
		if c.Signer, err = newAuthority(o.Name, now); err != nil {
			return c, err
		}
	}
	switch {
	case serving == nil || serving.Leaf.VerifyHostname(o.Hosts[0]) != nil:
		err = c.issue(cmp.Or(signer, c.Signer), o, now) // clients trust the previous CA already
	case c.isReplaced(o, now):
		err = c.issue(c.Signer, o, now)
	}
	if err != nil {
		return c, err
	}
	c.Bundle = c.needed(serving, o, now)
	return c, nil
}

// issue sets the serving certificate to a new certificate of a CA. If somebody has stored a CA that may not issue this
// certificate, issue replaces the CA, too.
func (c *Content) issue(ca *Pair, o Options, now time.Time) (err error) {
	if c.Serving, err = issue(ca, o, now); err != nil || c.Serving.IsTrusted([]*x509.Certificate{ca.Leaf}, now) {
		return err
	}
	if c.Signer, err = newAuthority(o.Name, now); err == nil {
		c.Serving, err = issue(c.Signer, o, now)
	}
	return err
}

// isReplaced reports whether the serving certificate is due, or has been issued by a CA that was replaced.
func (c Content) isReplaced(o Options, now time.Time) bool {
	if c.Serving.Leaf.CheckSignatureFrom(c.Signer.Leaf) == nil {
		return isDue(c.Serving.Leaf, now)
	}
	return !now.Before(issuedAt(c.Signer.Leaf).Add(o.Overlap))
}

// maxRecent is the size of the bundle up to which recent CAs are added. These CAs are trusted only because servers may
// still serve with their certificates. Without this limit, a tool that deletes the Secret again and again would make
// the bundle too large to be stored.
const maxRecent = 8

// needed returns the CAs that clients must trust, without duplicates: the signing CA, the CAs of the serving
// certificate and of the previous serving certificate, and during the overlap recent CAs up to maxRecent.
func (c Content) needed(previous *Pair, o Options, now time.Time) []*x509.Certificate {
	bundle := []*x509.Certificate{c.Signer.Leaf}
	add := func(wanted func(ca *x509.Certificate) bool) {
		for _, ca := range c.Bundle {
			if wanted(ca) && !slices.ContainsFunc(bundle, ca.Equal) {
				bundle = append(bundle, ca)
			}
		}
	}
	add(func(ca *x509.Certificate) bool {
		return c.Serving.Leaf.CheckSignatureFrom(ca) == nil ||
			previous != nil && previous.Leaf.CheckSignatureFrom(ca) == nil
	})
	if now.Before(issuedAt(c.Serving.Leaf).Add(o.Overlap)) || now.Before(issuedAt(c.Signer.Leaf).Add(o.Overlap)) {
		add(func(*x509.Certificate) bool { return len(bundle) < maxRecent })
	}
	return bundle
}

// isDue reports whether two thirds of the lifetime of a certificate are over.
func isDue(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotAfter.Add(-c.NotAfter.Sub(issuedAt(c)) / 3))
}
