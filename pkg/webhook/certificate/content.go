package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret beside tls.crt and tls.key.
const (
	bundleKey       = corev1.ServiceAccountRootCAKey // ca.crt: CAs that the API server shall trust
	authorityKeyKey = "ca.key"                       // the key of the CA that signs, whose certificate is in ca.crt
)

// content is what the Secret says. What cannot be read, does not fit together or
// has expired is nil.
type content struct {
	// serving is the certificate with which the webhook serves.
	serving *tls.Certificate
	// bundle are the CAs that the API server shall trust.
	bundle []*x509.Certificate
	// signer is the one CA of the bundle whose key is known.
	signer *pair
}

// parseContent reads the data of the Secret.
func parseContent(data map[string][]byte, now time.Time) content {
	c := content{bundle: parseBundle(data[bundleKey], now)}
	// Whatever is wrong with a certificate, the cure is a new one.
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

// trusts is whether a client that knows these CAs accepts a serving certificate.
func trusts(bundle []*x509.Certificate, serving *x509.Certificate, now time.Time) bool {
	roots := x509.NewCertPool()
	for _, ca := range bundle {
		roots.AddCert(ca)
	}
	_, err := serving.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now}) // for servers, by default
	return err == nil
}

// signed is whether the serving certificate comes from the CA that signs now.
func (c content) signed() bool {
	return c.serving != nil && c.signer != nil && c.serving.Leaf.CheckSignatureFrom(c.signer.certificate) == nil
}

// covers is whether the serving certificate is good for all hosts.
func (c content) covers(hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool { return c.serving.Leaf.VerifyHostname(host) != nil })
}

// hosts are those that the serving certificate is good for.
func (c content) hosts() []string {
	hosts := slices.Clone(c.serving.Leaf.DNSNames)
	for _, ip := range c.serving.Leaf.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}
