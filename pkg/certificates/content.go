// Package certificates creates and renews a CA and a serving certificate, which one Secret has. A client that trusts
// the CAs in the Secret accepts each serving certificate during a renewal, because a new CA signs nothing until clients
// had time to read it, and a previous CA stays trusted for as long after its last certificate was replaced.
package certificates

import (
	"crypto/x509"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret in addition to tls.crt and tls.key.
const (
	KeyBundle    = corev1.ServiceAccountRootCAKey // ca.crt: the CAs that clients must trust
	KeyAuthority = "ca.key"                       // the key of the signing CA, whose certificate is in ca.crt
)

// Content is the decoded content of the Secret. It omits certificates and keys that cannot be decoded or do not
// belong together, and certificates that are not valid now.
type Content struct {
	// Serving is the serving certificate, or nil.
	Serving *Pair
	// Bundle holds the CAs that clients must trust.
	Bundle []*x509.Certificate
	// Signer is the signing CA: the CA in Bundle that belongs to the key in the Secret, or nil.
	Signer *Pair
}

// Parse decodes the data of the Secret. It returns no error, because Renew replaces an invalid certificate or key.
func Parse(data map[string][]byte, now time.Time) Content {
	c := Content{Bundle: ParseBundle(data[KeyBundle], now)}
	for _, ca := range c.Bundle {
		signer, err := ParsePair(EncodeBundle(ca), data[KeyAuthority])
		if err == nil && !now.Before(ca.NotBefore) {
			c.Signer = signer
			break
		}
	}
	serving, err := ParsePair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err == nil && Trusts(c.Bundle, serving.Leaf, now) {
		c.Serving = serving
	}
	return c
}

// Data encodes c for the Secret. Signer and Serving must be set.
func (c Content) Data() map[string][]byte {
	return map[string][]byte{
		KeyBundle:               EncodeBundle(c.Bundle...),
		KeyAuthority:            c.Signer.Key,
		corev1.TLSCertKey:       EncodeBundle(c.Serving.Leaf),
		corev1.TLSPrivateKeyKey: c.Serving.Key,
	}
}

// Trusts reports whether a client that trusts the CAs in bundle accepts a serving certificate.
func Trusts(bundle []*x509.Certificate, serving *x509.Certificate, now time.Time) bool {
	roots := x509.NewCertPool()
	for _, ca := range bundle {
		roots.AddCert(ca)
	}
	// KeyUsages defaults to server authentication.
	_, err := serving.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now})
	return err == nil
}
