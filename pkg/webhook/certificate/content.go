package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret in addition to tls.crt and tls.key.
const (
	bundleKey       = corev1.ServiceAccountRootCAKey // ca.crt: the CAs that the API server must trust
	authorityKeyKey = "ca.key"                       // the key of the signing CA, whose certificate is in ca.crt
)

// content is the decoded content of the Secret. It omits certificates and keys that cannot be decoded or do not
// belong together, and certificates that have expired.
type content struct {
	// serving is the serving certificate of the webhook.
	serving *tls.Certificate
	// bundle holds the CAs that the API server must trust.
	bundle []*x509.Certificate
	// signer is the signing CA: the CA in bundle that belongs to the key in the Secret.
	signer *pair
}

// parseContent decodes the data of the Secret.
func parseContent(data map[string][]byte, now time.Time) content {
	c := content{bundle: parseBundle(data[bundleKey], now)}
	// Errors do not matter: plan chooses a step that replaces an invalid certificate or key.
	if key, err := parseKey(data[authorityKeyKey]); err == nil {
		i := slices.IndexFunc(c.bundle, func(ca *x509.Certificate) bool { return key.PublicKey.Equal(ca.PublicKey) })
		if i >= 0 {
			c.signer = &pair{certificate: c.bundle[i], key: key}
		}
	}
	if serving, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]); err == nil {
		if trusts(c.bundle, serving.Leaf, now) {
			c.serving = &serving
		}
	}
	return c
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

// signed reports whether the signing CA issued the serving certificate.
func (c content) signed() bool {
	return c.serving != nil && c.signer != nil && c.serving.Leaf.CheckSignatureFrom(c.signer.certificate) == nil
}

// covers reports whether the serving certificate is valid for all hosts.
func (c content) covers(hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool { return c.serving.Leaf.VerifyHostname(host) != nil })
}

// hosts returns the hosts that the serving certificate is valid for.
func (c content) hosts() []string {
	hosts := slices.Clone(c.serving.Leaf.DNSNames)
	for _, ip := range c.serving.Leaf.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}
