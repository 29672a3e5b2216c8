package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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

// Types of PEM blocks.
const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"
)

// pair is a certificate with its private key.
type pair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// newAuthority creates a self-signed CA.
func newAuthority(now time.Time, lifetime time.Duration) (*pair, error) {
	return sign(&x509.Certificate{
		// The name distinguishes CAs, both for readers and for the verification of chains.
		Subject:               pkix.Name{CommonName: "windlass-webhook-ca@" + now.UTC().Format(time.RFC3339)},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}, nil)
}

// issue creates a serving certificate for hosts, which are DNS names or IP addresses. The certificate expires no
// later than the CA.
func (p *pair) issue(hosts []string, now time.Time, lifetime time.Duration) (*pair, error) {
	end := now.Add(lifetime)
	if p.certificate.NotAfter.Before(end) {
		end = p.certificate.NotAfter
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "windlass-webhook"},
		NotBefore:             now.Add(-backdate),
		NotAfter:              end,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	return sign(template, p)
}

// sign creates a key and a certificate for it. If ca is nil, the certificate is self-signed.
func sign(template *x509.Certificate, ca *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	if ca == nil {
		ca = &pair{certificate: template, key: key}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return nil, fmt.Errorf("creating certificate %s: %w", template.Subject, err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, fmt.Errorf("parsing certificate %s: %w", template.Subject, err)
	}
	return &pair{certificate: certificate, key: key}, nil
}

// encode returns certificate and key as PEM.
func (p *pair) encode() (certificate, key []byte, err error) {
	raw, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the key of %s: %w", p.certificate.Subject, err)
	}
	return encodeBundle([]*x509.Certificate{p.certificate}), pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: raw}), nil
}

// encodeBundle returns certificates as PEM.
func encodeBundle(certificates []*x509.Certificate) []byte {
	var bundle []byte
	for _, c := range certificates {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: c.Raw})...)
	}
	return bundle
}

// parseBundle returns the CAs in a PEM bundle that have not expired, without duplicates. It skips blocks that it
// cannot decode.
func parseBundle(bundle []byte, now time.Time) []*x509.Certificate {
	var authorities []*x509.Certificate
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err == nil && c.IsCA && now.Before(c.NotAfter) && !slices.ContainsFunc(authorities, c.Equal) {
			authorities = append(authorities, c)
		}
	}
	return authorities
}

// parseKey decodes the first block of a PEM text as an ECDSA key.
func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("no PEM block found")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	if key, ok := key.(*ecdsa.PrivateKey); ok {
		return key, nil
	}
	return nil, fmt.Errorf("the key has type %T, not ECDSA", key)
}

// issuedAt returns when Windlass created a certificate.
func issuedAt(c *x509.Certificate) time.Time { return c.NotBefore.Add(backdate) }

// renewAt returns when two thirds of the lifetime of a certificate are over.
func renewAt(c *x509.Certificate) time.Time {
	return c.NotAfter.Add(-c.NotAfter.Sub(issuedAt(c)) / 3)
}
