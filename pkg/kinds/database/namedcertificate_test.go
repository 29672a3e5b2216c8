package database

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/certificates"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// issued returns the data of a Secret with a CA and a certificate for host, as cert-manager writes them.
func issued(t testing.TB, host string, now time.Time) map[string][]byte {
	t.Helper()
	content, err := certificates.Content{}.Renew(certificates.Options{Name: "theirs", Hosts: []string{host}}, now)
	if err != nil {
		t.Fatal(err)
	}
	data := content.Data()
	delete(data, certificates.KeyAuthority)
	return data
}

// signed is a certificate with its key.
type signed struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// newSigned returns a certificate that by has signed, or that has signed itself if by is nil. It is valid for an hour.
// The key is ECDSA, unless keys has another one.
func newSigned(t *testing.T, now time.Time, template x509.Certificate, by *signed, keys ...crypto.Signer) *signed {
	t.Helper()
	var key crypto.Signer
	if len(keys) > 0 {
		key = keys[0]
	} else {
		generated, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		key = generated
	}
	template.Subject = pkix.Name{CommonName: rand.Text()}
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(time.Hour)
	if by == nil {
		by = &signed{&template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, by.certificate, key.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &signed{parsed, key}
}

// pem returns the key.
func (s *signed) pem(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(s.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// secret returns the data of a Secret with the certificate, its issuers and the CAs.
func (s *signed) secret(t *testing.T, authority *signed, issuers ...*x509.Certificate) map[string][]byte {
	t.Helper()
	return map[string][]byte{
		corev1.TLSCertKey:       certificates.EncodeBundle(append([]*x509.Certificate{s.certificate}, issuers...)...),
		corev1.TLSPrivateKeyKey: s.pem(t), certificates.KeyBundle: certificates.EncodeBundle(authority.certificate),
	}
}

func TestDatabaseWaitsForNamedCertificate(t *testing.T) {
	f := newFixture(t, example(withTLSSecret))
	controllertest.ErrorContains(t, "Waiting for Secret shop-tls, which tls.secretName names, to be created.",
		f.Reconcile().Err)
	controllertest.Equal(t, "settings", (*corev1.Secret)(nil), f.settings())
	f.storeTLS("1", issued(t, "shop.default.svc", f.Clock.Now()))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	f.checkEncryption(f.Clock.Now())
	controllertest.Equal(t, "Secret of the operator", (*corev1.Secret)(nil), f.certificate())
}

// endless is a number with which Go would compute for hours.
var endless = new(big.Int).SetBit(big.NewInt(1), 80_000, 1)

// rsaKey returns the PEM of a value that has the form of an RSA key.
func rsaKey(t *testing.T, value any) []byte {
	t.Helper()
	der, err := asn1.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: der})
}

// endlessKey returns an RSA key that is small, except for a factor.
func endlessKey(t *testing.T) []byte {
	t.Helper()
	return rsaKey(t, struct {
		Version       int
		N, E, D, P, Q *big.Int
	}{0, big.NewInt(15), big.NewInt(3), big.NewInt(3), endless, big.NewInt(5)})
}

// keyWithEndlessPrime returns an RSA key with a third prime.
func keyWithEndlessPrime(t *testing.T) []byte {
	t.Helper()
	type prime struct{ Prime, Exponent, Coefficient *big.Int }
	n := big.NewInt
	return rsaKey(t, struct {
		Version                   int
		N, E, D, P, Q, Dp, Dq, Qi *big.Int
		More                      []prime
	}{1, n(15), n(3), n(3), n(3), n(5), n(1), n(1), n(1), []prime{{endless, n(1), n(1)}}})
}

func TestNamedCertificateThatCannotBeUsedChangesNothing(t *testing.T) {
	const host = "shop.default.svc"
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := x509.Certificate{DNSNames: []string{host}}
	authority := x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	with := func(key string, value []byte) func(*testing.T, time.Time) map[string][]byte {
		return func(t *testing.T, now time.Time) map[string][]byte {
			data := issued(t, host, now)
			data[key] = value
			return data
		}
	}
	by := func(keyOfCA, key crypto.Signer) func(*testing.T, time.Time) map[string][]byte {
		return func(t *testing.T, now time.Time) map[string][]byte {
			ca := newSigned(t, now, authority, nil, keyOfCA)
			return newSigned(t, now, leaf, ca, key).secret(t, ca)
		}
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data func(t *testing.T, now time.Time) map[string][]byte
		want string
	}{
		"no key":                 {with(corev1.TLSPrivateKeyKey, nil), "are not a certificate and its key in PEM form"},
		"an endless key":         {with(corev1.TLSPrivateKeyKey, endlessKey(t)), "RSA with at least 2048 bits"},
		"an endless third prime": {with(corev1.TLSPrivateKeyKey, keyWithEndlessPrime(t)), "RSA with at least 2048 bits"},
		"an endless key after a block that Go skips": {
			with(corev1.TLSPrivateKeyKey, append(
				pem.EncodeToMemory(&pem.Block{Type: "XPRIVATE KEY", Bytes: []byte("0")}), endlessKey(t)...,
			)), "RSA with at least 2048 bits",
		},
		"a CA with an endless key": {
			func(t *testing.T, now time.Time) map[string][]byte {
				data := issued(t, host, now)
				template := authority
				template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(time.Hour)
				by := newSigned(t, now, authority, nil)
				der, err := x509.CreateCertificate(rand.Reader, &template, by.certificate,
					&rsa.PublicKey{N: endless, E: 65537}, by.key)
				if err != nil {
					t.Fatal(err)
				}
				data[certificates.KeyBundle] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
				return data
			}, "ca.crt has no certificate in PEM form",
		},
		"no CA":                     {with(certificates.KeyBundle, []byte("none")), "ca.crt has no certificate in PEM form"},
		"a large key":               {with(corev1.TLSPrivateKeyKey, make([]byte, maxChain)), "have more than 32 KiB"},
		"a large CA":                {with(certificates.KeyBundle, make([]byte, 192<<10+1)), "ca.crt has more than 192 KiB"},
		"a small RSA key":           {by(ec, small), "RSA with at least 2048 bits"},
		"a CA with a small RSA key": {by(small, ec), "RSA with at least 2048 bits"},
		"an Ed25519 key":            {by(ec, edwards), "RSA with at least 2048 bits"},
		"a CA with an Ed25519 key":  {by(edwards, ec), "RSA with at least 2048 bits"},
		"a certificate for another host": {
			func(t *testing.T, now time.Time) map[string][]byte { return issued(t, "cart.default.svc", now) },
			"is not valid for the name shop.default.svc",
		},
		"a certificate of the future": {
			func(t *testing.T, now time.Time) map[string][]byte { return issued(t, host, now.Add(48*time.Hour)) },
			"is not valid before",
		},
		"an expired certificate": {
			func(t *testing.T, now time.Time) map[string][]byte {
				return issued(t, host, now.Add(-certificates.ServingLifetime-time.Hour))
			}, "the certificate expired at",
		},
		"another CA": {
			func(t *testing.T, now time.Time) map[string][]byte {
				data := issued(t, host, now)
				data[certificates.KeyBundle] = issued(t, host, now)[certificates.KeyBundle]
				return data
			}, "no CA in ca.crt issued it",
		},
		"a CA that another CA has signed": {
			func(t *testing.T, now time.Time) map[string][]byte {
				root := newSigned(t, now, authority, nil)
				middle := newSigned(t, now, authority, root)
				return newSigned(t, now, leaf, middle).secret(t, middle)
			}, "which signs itself",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(withTLSSecret))
			f.storeTLS("1", c.data(t, f.Clock.Now()))
			controllertest.ErrorContains(t, c.want, f.Reconcile().Err)
			controllertest.Equal(t, "settings", (*corev1.Secret)(nil), f.settings())

			f.storeTLS("2", issued(t, host, f.Clock.Now()))
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			f.start()
			settings, connection := f.settings().Data, f.secret().Data
			f.storeTLS("3", c.data(t, f.Clock.Now()))
			controllertest.ErrorContains(t, c.want, f.Reconcile().Err)
			controllertest.Equal(t, "reason", "InvalidCertificate", f.reason())
			controllertest.Equal(t, "settings", settings, f.settings().Data)
			controllertest.Equal(t, "connection", connection, f.secret().Data)

			f.Change(workMem("8MB")) // other changes take effect
			controllertest.ErrorContains(t, c.want, f.Reconcile().Err)
			controllertest.Equal(t, "parameters", "work_mem=8MB", string(f.settings().Data[keyParameters]))
		})
	}
}

// TestNamedCertificateOfIntermediateAuthorityIsServedWithIt also shows that neither another certificate in tls.crt nor
// anything but certificates in ca.crt is copied.
func TestNamedCertificateOfIntermediateAuthorityIsServedWithIt(t *testing.T) {
	f := newFixture(t, example(withTLSSecret))
	now := f.Clock.Now()
	authority := x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	root, stranger := newSigned(t, now, authority, nil), newSigned(t, now, authority, nil)
	middle := newSigned(t, now, authority, root)
	leaf := newSigned(t, now, x509.Certificate{DNSNames: []string{"shop.default.svc"}}, middle)
	data := leaf.secret(t, root, stranger.certificate, middle.certificate, root.certificate)
	data[certificates.KeyBundle] = append(data[certificates.KeyBundle], root.pem(t)...)
	f.storeTLS("1", data)
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "certificates of the server",
		string(certificates.EncodeBundle(leaf.certificate, middle.certificate)), string(f.settings().Data[corev1.TLSCertKey]))
	if bytes.Contains(f.secret().Data["ca.crt"], []byte("PRIVATE KEY")) {
		t.Error("the clients get a key")
	}
}

func TestFailedReadOfNamedCertificateIsRetried(t *testing.T) {
	f := newFixture(t, example(withTLSSecret))
	f.storeTLS("1", issued(t, "shop.default.svc", f.Clock.Now()))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	f.start()
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	f.storeTLS("2", issued(t, "shop.default.svc", f.Clock.Now()))
	f.Journal.FailNext("get", "secrets", apierrors.NewInternalError(errors.New("try again")))
	controllertest.ErrorContains(t, "try again", f.Reconcile().Err)
	controllertest.Equal(t, "phase", v1alpha1.DatabaseDeploying, f.Object().Status.Phase)
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "phase", v1alpha1.DatabaseReady, f.Object().Status.Phase)
}
