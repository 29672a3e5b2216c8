package certificates

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// backdate is the time from NotBefore to the creation of a certificate. Clients whose clocks are behind the clock of
// the operator by less than backdate accept the certificate at once. The time is as long as maxSkew.
const backdate = maxSkew

// MinRSA and maxRSA are the sizes of RSA keys, in bits. OpenSSL in Debian rejects smaller keys. Larger keys take long.
const MinRSA, maxRSA = 2048, 8192

// maxPEM limits a chain of certificates, and a key, in bytes.
const maxPEM = 32 << 10

// ErrKey is the error for a key of a type or size that is not supported.
var ErrKey = fmt.Errorf("the key is neither ECDSA nor RSA with %d to %d bits", MinRSA, maxRSA)

// Pair is a certificate with its chain, and its key. Key has the key as PEM, in PKCS #8.
type Pair struct {
	tls.Certificate
	Key []byte
}

// ParsePair decodes a chain of certificates and the key of the first certificate, which are PEM. It fails if they do
// not belong together. Its time is limited, whoever has written the key.
func ParsePair(chain, key []byte) (*Pair, error) {
	if len(chain) > maxPEM || len(key) > maxPEM {
		return nil, fmt.Errorf("a chain or a key has more than %d KiB", maxPEM>>10)
	}
	if err := checkNumbers(key); err != nil {
		return nil, err
	}
	parsed, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, err
	}
	for _, der := range parsed.Certificate {
		if c, err := x509.ParseCertificate(der); err != nil || isTooLarge(c) {
			return nil, fmt.Errorf("a certificate cannot be parsed, or has an RSA key with more than %d bits", maxRSA)
		}
	}
	switch private := parsed.PrivateKey.(type) {
	case *ecdsa.PrivateKey:
	case *rsa.PrivateKey:
		if private.N.BitLen() < MinRSA {
			return nil, ErrKey
		}
	default:
		return nil, ErrKey
	}
	encoded, err := encodeKey(parsed.PrivateKey)
	return &Pair{Certificate: parsed, Key: encoded}, err
}

// isTooLarge reports whether a certificate has an RSA key that is larger than any usual one. The verification of a
// signature of such a key can take minutes.
func isTooLarge(c *x509.Certificate) bool {
	key, ok := c.PublicKey.(*rsa.PublicKey)
	return ok && key.N.BitLen() > maxRSA
}

// checkNumbers returns an error if an RSA key has numbers that are larger than in any usual key, or more than two
// primes. The packages of Go compute with the numbers of a key before they find that the key is invalid, which can take
// hours. checkNumbers checks all keys in PEM, so that it need not know which one Go uses.
func checkNumbers(key []byte) error {
	for block, rest := pem.Decode(key); block != nil; block, rest = pem.Decode(rest) {
		der := block.Bytes
		var wrapped struct {
			Version   int
			Algorithm pkix.AlgorithmIdentifier
			Key       []byte
		}
		if _, err := asn1.Unmarshal(der, &wrapped); err == nil {
			der = wrapped.Key
		}
		var numbers struct {
			Version    int
			N          *big.Int
			E          *big.Int
			D, P, Q    *big.Int
			Dp, Dq, Qi *big.Int      `asn1:"optional"`
			MorePrimes asn1.RawValue `asn1:"optional"`
		}
		if _, err := asn1.Unmarshal(der, &numbers); err != nil {
			continue // no RSA key
		}
		if len(numbers.MorePrimes.FullBytes) > 0 {
			return ErrKey
		}
		for _, number := range []*big.Int{numbers.N, numbers.E, numbers.D, numbers.P, numbers.Q} {
			if number.BitLen() > maxRSA {
				return ErrKey
			}
		}
	}
	return nil
}

// Chain returns the certificate and the certificates that follow it.
func (p *Pair) Chain() ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	for _, der := range p.Certificate.Certificate {
		parsed, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("parsing a certificate of the chain: %w", err)
		}
		chain = append(chain, parsed)
	}
	return chain, nil
}

// Verify returns the chains from a serving certificate to the CAs in bundle.
func (p *Pair) Verify(bundle []*x509.Certificate, now time.Time) ([][]*x509.Certificate, error) {
	chain, err := p.Chain()
	if err != nil {
		return nil, err
	}
	roots, issuers := x509.NewCertPool(), x509.NewCertPool()
	for _, ca := range bundle {
		roots.AddCert(ca)
	}
	for _, issuer := range chain[1:] {
		issuers.AddCert(issuer)
	}
	// KeyUsages defaults to server authentication.
	return p.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: issuers, CurrentTime: now})
}

// IsTrusted reports whether a client that trusts the CAs in bundle accepts a serving certificate.
func (p *Pair) IsTrusted(bundle []*x509.Certificate, now time.Time) bool {
	_, err := p.Verify(bundle, now)
	return err == nil
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
	encoded, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return ParsePair(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), encoded)
}

// encodeKey returns a key as PEM, in PKCS #8.
func encodeKey(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// EncodeBundle returns certificates as PEM.
func EncodeBundle(certificates ...*x509.Certificate) []byte {
	var bundle []byte
	for _, c := range certificates {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return bundle
}

// ParseCertificates returns the certificates in PEM, without duplicates. It skips blocks that it cannot decode, and RSA
// keys with more than 8,192 bits.
func ParseCertificates(bundle []byte) (all []*x509.Certificate) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && !isTooLarge(c) && !slices.ContainsFunc(all, c.Equal) {
			all = append(all, c)
		}
	}
	return all
}

// ParseBundle returns the CAs in a PEM bundle that have not expired, like ParseCertificates.
func ParseBundle(bundle []byte, now time.Time) []*x509.Certificate {
	return slices.DeleteFunc(ParseCertificates(bundle), func(c *x509.Certificate) bool {
		return !c.IsCA || !now.Before(c.NotAfter)
	})
}

// issuedAt returns when Windlass created a certificate.
func issuedAt(c *x509.Certificate) time.Time { return c.NotBefore.Add(backdate) }
