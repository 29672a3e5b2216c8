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
// belong together, and certificates that are not valid now.
type content struct {
	// serving is the serving certificate of the webhook.
	serving *tls.Certificate
	// bundle holds the CAs that the API server must trust.
	bundle []*x509.Certificate
	// signer is the signing CA: the CA in bundle that belongs to the key in the Secret.
	signer *tls.Certificate
}

// parseContent decodes the data of the Secret. Errors do not matter: renew replaces an invalid certificate or key.
func parseContent(data map[string][]byte, now time.Time) content {
	c := content{bundle: parseBundle(data[bundleKey], now)}
	for _, ca := range c.bundle {
		signer, err := tls.X509KeyPair(encodeBundle(ca), data[authorityKeyKey])
		if err == nil && !now.Before(ca.NotBefore) {
			c.signer = &signer
			break
		}
	}
	serving, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err == nil && trusts(c.bundle, serving.Leaf, now) {
		c.serving = &serving
	}
	return c
}

// changes returns the data to write into a Secret with the content old.
func (c content) changes(old content) (map[string][]byte, error) {
	data := map[string][]byte{}
	if !slices.EqualFunc(c.bundle, old.bundle, (*x509.Certificate).Equal) {
		data[bundleKey] = encodeBundle(c.bundle...)
	}
	var err error
	if c.signer != old.signer {
		if data[authorityKeyKey], err = encodeKey(c.signer.PrivateKey); err != nil {
			return nil, err
		}
	}
	if c.serving != old.serving {
		data[corev1.TLSCertKey] = encodeBundle(c.serving.Leaf)
		if data[corev1.TLSPrivateKeyKey], err = encodeKey(c.serving.PrivateKey); err != nil {
			return nil, err
		}
	}
	return data, nil
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

// covers reports whether a certificate is valid for all hosts.
func covers(c *x509.Certificate, hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool { return c.VerifyHostname(host) != nil })
}

// hostsOf returns the hosts that a certificate is valid for.
func hostsOf(c *x509.Certificate) []string {
	hosts := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}
