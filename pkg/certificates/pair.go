package certificates

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"time"
)

// backdate is the time from NotBefore to the creation of a certificate, for machines whose clocks are behind.
// kubeadm uses the same time (CertificateBackdate in k8s.io/kubernetes/cmd/kubeadm/app/constants).
const backdate = 5 * time.Minute

// Pair is a certificate and its key. Key has the key as PEM.
type Pair struct {
	tls.Certificate
	Key []byte
}

// ParsePair decodes a certificate and its key, which are PEM. It fails if the certificate and the key do not belong
// together.
func ParsePair(certificate, key []byte) (*Pair, error) {
	parsed, err := tls.X509KeyPair(certificate, key)
	return &Pair{Certificate: parsed, Key: key}, err
}

// newAuthority creates a self-signed CA.
func newAuthority(name string, now time.Time) (*Pair, error) {
	return sign(&x509.Certificate{
		// The name distinguishes CAs, both for readers and for the verification of chains.
		Subject:               pkix.Name{CommonName: name + "-ca@" + now.UTC().Format(time.RFC3339)},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(AuthorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}, nil)
}

// issue creates a serving certificate.
func issue(ca *Pair, o Options, now time.Time) (*Pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: o.Name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              earlier(now.Add(ServingLifetime), ca.Leaf.NotAfter),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, host := range o.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return sign(template, ca)
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// sign creates a key, and a certificate for this key. If ca is nil, the certificate is self-signed.
func sign(template *x509.Certificate, ca *Pair) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	ca = cmp.Or(ca, &Pair{Certificate: tls.Certificate{Leaf: template, PrivateKey: key}})
	certificate, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("creating certificate %s: %w", template.Subject, err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key of certificate %s: %w", template.Subject, err)
	}
	return ParsePair(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
}

// EncodeBundle returns certificates as PEM.
func EncodeBundle(certificates ...*x509.Certificate) []byte {
	var bundle []byte
	for _, c := range certificates {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return bundle
}

// ParseBundle returns the CAs in a PEM bundle that have not expired, without duplicates. It skips blocks that it
// cannot decode.
func ParseBundle(bundle []byte, now time.Time) []*x509.Certificate {
	var authorities []*x509.Certificate
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err == nil && c.IsCA && now.Before(c.NotAfter) && !slices.ContainsFunc(authorities, c.Equal) {
			authorities = append(authorities, c)
		}
	}
	return authorities
}

// issuedAt returns when Windlass created a certificate.
func issuedAt(c *x509.Certificate) time.Time { return c.NotBefore.Add(backdate) }
