package certificate

import (
	"crypto/x509"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret in addition to tls.crt and tls.key.
const (
	bundleKey       = corev1.ServiceAccountRootCAKey // ca.crt: the CAs that the API server must trust
	authorityKeyKey = "ca.key"                       // the key of the signing CA, whose certificate is in ca.crt
)

// content is the decoded content of the Secret. It omits certificates and keys that cannot be decoded or do not
// belong together, and certificates that are not valid now.
type content struct {
	// serving is the serving certificate of the webhook.
	serving *pair
	// bundle holds the CAs that the API server must trust.
	bundle []*x509.Certificate
	// signer is the signing CA: the CA in bundle that belongs to the key in the Secret.
	signer *pair
}

// parseContent decodes the data of the Secret. It returns no error, because renew replaces an invalid certificate or
// key.
func parseContent(data map[string][]byte, now time.Time) content {
	c := content{bundle: parseBundle(data[bundleKey], now)}
	for _, ca := range c.bundle {
		signer, err := parsePair(encodeBundle(ca), data[authorityKeyKey])
		if err == nil && !now.Before(ca.NotBefore) {
			c.signer = signer
			break
		}
	}
	serving, err := parsePair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err == nil && trusts(c.bundle, serving.Leaf, now) {
		c.serving = serving
	}
	return c
}

// data encodes c for the Secret.
func (c content) data() map[string][]byte {
	return map[string][]byte{
		bundleKey:               encodeBundle(c.bundle...),
		authorityKeyKey:         c.signer.key,
		corev1.TLSCertKey:       encodeBundle(c.serving.Leaf),
		corev1.TLSPrivateKeyKey: c.serving.key,
	}
}

// trusts reports whether a client that trusts the CAs in bundle accepts a serving certificate.
func trusts(bundle []*x509.Certificate, serving *x509.Certificate, now time.Time) bool {
	roots := x509.NewCertPool()
	for _, ca := range bundle {
		roots.AddCert(ca)
	}
	// KeyUsages defaults to server authentication.
	_, err := serving.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now})
	return err == nil
}
