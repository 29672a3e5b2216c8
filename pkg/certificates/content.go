// Package certificates creates and renews a CA and a serving certificate in one Secret. A new CA signs nothing during
// the overlap, in which clients read it. A previous CA stays trusted for one more overlap after its last certificate
// was replaced.
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

// maxSkew is how far in the future the beginning of a CA or of a certificate may be, because of the clock of another
// replica. Without it, a replica whose clock is behind would replace the CA.
const maxSkew = 24 * time.Hour

// maxSigners is how many CAs of a bundle can be the signing CA. Renew puts the signing CA first.
const maxSigners = 8

// Parse decodes the data of the Secret. It returns no error, because Renew replaces an invalid certificate or key.
func Parse(data map[string][]byte, now time.Time) Content {
	c := Content{Bundle: ParseBundle(data[KeyBundle], now)}
	for _, ca := range c.Bundle[:min(len(c.Bundle), maxSigners)] {
		signer, err := ParsePair(EncodeBundle(ca), data[KeyAuthority])
		if err == nil && !now.Add(maxSkew).Before(ca.NotBefore) {
			c.Signer = signer
			break
		}
	}
	serving, err := ParsePair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return c
	}
	at := now
	if begin := serving.Leaf.NotBefore; begin.After(now) && !now.Add(maxSkew).Before(begin) {
		at = begin
	}
	if serving.IsTrusted(c.Bundle, at) {
		c.Serving = serving
	}
	return c
}

// Data encodes c for the Secret. Signer and Serving must be set.
func (c Content) Data() map[string][]byte {
	chain, err := c.Serving.Chain()
	if err != nil { // ParsePair has parsed the first certificate
		chain = []*x509.Certificate{c.Serving.Leaf}
	}
	return map[string][]byte{
		KeyBundle:               EncodeBundle(c.Bundle...),
		KeyAuthority:            c.Signer.Key,
		corev1.TLSCertKey:       EncodeBundle(chain...),
		corev1.TLSPrivateKeyKey: c.Serving.Key,
	}
}
