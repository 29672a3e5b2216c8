package database

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/certificates"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

// withTLSSecret is a change that names a Secret with a certificate.
func withTLSSecret(db *v1alpha1.Database) { db.Spec.TLS.SecretName = "shop-tls" }

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

// withKey returns the data of a Secret with a self-signed certificate of another kind of key.
func withKey(t *testing.T, host string, now time.Time, public, private any) map[string][]byte {
	t.Helper()
	template := &x509.Certificate{
		DNSNames: []string{host}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return map[string][]byte{
		corev1.TLSCertKey: certificate, certificates.KeyBundle: certificate,
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}
}

// storeTLS stores the Secret that withTLSSecret names.
func (f fixture) storeTLS(version string, data map[string][]byte) {
	f.Store(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop-tls", UID: "tls-uid", ResourceVersion: version},
		Type:       corev1.SecretTypeTLS, Data: data,
	})
}

// checkEncryption fails the test unless the server presents a certificate that the clients trust, and the Pod has no
// key of a CA.
func (f fixture) checkEncryption(now time.Time) {
	f.T.Helper()
	settings, connection := f.settings().Data, f.secret().Data
	bundle := certificates.ParseBundle(connection[credentials.KeyCA], now)
	pair, err := certificates.ParsePair(settings[corev1.TLSCertKey], settings[corev1.TLSPrivateKeyKey])
	if err != nil || !certificates.Trusts(bundle, pair.Leaf, now) || pair.Leaf.VerifyHostname("shop.default.svc") != nil {
		f.T.Errorf("the clients do not trust the certificate of the server: %v", err)
	}
	if settings[certificates.KeyAuthority] != nil {
		f.T.Error("the Pod has the key of the CA")
	}
}

func TestServerAndClientsGetCertificate(t *testing.T) {
	f := readyFixture(t)
	f.checkEncryption(f.Clock.Now())
	controllertest.Equal(t, "sslmode", "verify-full", string(f.secret().Data[credentials.KeyTLSMode]))
	settings, err := credentials.Parse(f.secret().Data)
	controllertest.ErrorContains(t, "", err) // so that an ExternalDatabase can use the Secret
	controllertest.Equal(t, "host", "shop.default.svc", settings.Host)
	controllertest.Equal(t, "writes", []string(nil), f.Reconcile().Writes)
}

func TestCertificateIsRenewedWithoutChangeOfConnection(t *testing.T) {
	f := readyFixture(t)
	before, connection := f.settings().Data[corev1.TLSCertKey], f.secret().Data
	f.Clock.Step(certificates.ServingLifetime * 2 / 3)
	r := f.Reconcile()
	controllertest.ErrorContains(t, "", r.Err)
	controllertest.Equal(t, "writes", []string{"patch secrets default/shop-certificate", patchSettings}, r.Writes)
	if bytes.Equal(before, f.settings().Data[corev1.TLSCertKey]) {
		t.Error("the server keeps its certificate")
	}
	controllertest.Equal(t, "connection Secret", connection, f.secret().Data)
	f.checkEncryption(f.Clock.Now())
}

// TestLostCAIsReplacedWithoutFailedConnection deletes the Secret with the CA, as somebody does whose CA has leaked.
func TestLostCAIsReplacedWithoutFailedConnection(t *testing.T) {
	f := readyFixture(t)
	first := f.settings().Data[corev1.TLSCertKey]
	authority := certificates.ParseBundle(f.secret().Data[credentials.KeyCA], f.Clock.Now())[0]
	trusted := func() int { return len(certificates.ParseBundle(f.secret().Data[credentials.KeyCA], f.Clock.Now())) }
	f.Remove(f.certificate())
	controllertest.Equal(t, "writes", []string{createCertificate, patchSecret}, f.Reconcile().Writes)
	controllertest.Equal(t, "certificate", string(first), string(f.settings().Data[corev1.TLSCertKey]))
	controllertest.Equal(t, "trusted CAs", 2, trusted())
	f.checkEncryption(f.Clock.Now())

	f.Clock.Step(caOverlap)
	controllertest.Equal(t, "writes", []string{"patch secrets default/shop-certificate", patchSettings},
		f.Reconcile().Writes)
	f.checkEncryption(f.Clock.Now())
	f.Clock.Step(caOverlap)
	controllertest.Equal(t, "writes", []string{"patch secrets default/shop-certificate", patchSecret},
		f.Reconcile().Writes)
	controllertest.Equal(t, "trusted CAs", 1, trusted())
	if slices.ContainsFunc(certificates.ParseBundle(f.secret().Data[credentials.KeyCA], f.Clock.Now()), authority.Equal) {
		t.Error("the clients trust the previous CA")
	}
	f.checkEncryption(f.Clock.Now())
}

func TestDisabledTLSRemovesCertificate(t *testing.T) {
	f := readyFixture(t)
	f.Change(func(db *v1alpha1.Database) {
		db.Generation++
		db.Spec.TLS.Mode = v1alpha1.TLSDisabled
	})
	r := f.Reconcile()
	controllertest.ErrorContains(t, "", r.Err)
	controllertest.Equal(t, "writes", []string{
		patchSecret, patchSettings, "delete secrets default/shop-certificate", updateStatus,
	}, r.Writes)
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		controllertest.Equal(t, key, "", string(f.settings().Data[key]))
	}
	controllertest.Equal(t, "sslmode", "disable", string(f.secret().Data[credentials.KeyTLSMode]))
	controllertest.Equal(t, "ca.crt", "", string(f.secret().Data[credentials.KeyCA]))
}

func TestDatabaseWaitsForNamedCertificate(t *testing.T) {
	f := newFixture(t, example(withTLSSecret))
	controllertest.ErrorContains(t, "Secret shop-tls with the certificate of the server", f.Reconcile().Err)
	controllertest.Equal(t, "settings", (*corev1.Secret)(nil), f.settings())
	f.storeTLS("1", issued(t, "shop.default.svc", f.Clock.Now()))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	f.checkEncryption(f.Clock.Now())
	controllertest.Equal(t, "Secret of the operator", (*corev1.Secret)(nil), f.certificate())
}

func TestNamedCertificateThatCannotBeUsedChangesNothing(t *testing.T) {
	const host = "shop.default.svc"
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	public, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	with := func(key, value string) func(time.Time) map[string][]byte {
		return func(now time.Time) map[string][]byte {
			data := issued(t, host, now)
			data[key] = []byte(value)
			return data
		}
	}
	for name, c := range map[string]struct {
		data func(now time.Time) map[string][]byte
		want string
	}{
		"no key":      {with(corev1.TLSPrivateKeyKey, ""), "are not a certificate and its key in PEM form"},
		"no CA":       {with(certificates.KeyBundle, "none"), "ca.crt has no certificate in PEM form"},
		"a large key": {with(corev1.TLSPrivateKeyKey, string(make([]byte, maxChain))), "have more than 32 KiB"},
		"a large CA":  {with(certificates.KeyBundle, string(make([]byte, 192<<10+1))), "ca.crt has more than 192 KiB"},
		"an RSA key that is too small": {
			func(now time.Time) map[string][]byte { return withKey(t, host, now, small.Public(), small) },
			"must be ECDSA, or RSA with at least 2048 bits",
		},
		"an Ed25519 key": {
			func(now time.Time) map[string][]byte { return withKey(t, host, now, public, edwards) },
			"must be ECDSA, or RSA with at least 2048 bits",
		},
		"a certificate for another host": {
			func(now time.Time) map[string][]byte { return issued(t, "cart.default.svc", now) },
			"is not valid for the name shop.default.svc",
		},
		"a certificate of the future": {
			func(now time.Time) map[string][]byte { return issued(t, host, now.Add(time.Hour)) }, "is not valid before",
		},
		"an expired certificate": {
			func(now time.Time) map[string][]byte {
				return issued(t, host, now.Add(-certificates.ServingLifetime-time.Hour))
			},
			"the certificate expired at",
		},
		"another CA": {
			func(now time.Time) map[string][]byte {
				data := issued(t, host, now)
				data[certificates.KeyBundle] = issued(t, host, now)[certificates.KeyBundle]
				return data
			}, "no CA in ca.crt has issued the certificate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, example(withTLSSecret))
			f.storeTLS("1", c.data(f.Clock.Now()))
			controllertest.ErrorContains(t, c.want, f.Reconcile().Err)
			controllertest.Equal(t, "settings", (*corev1.Secret)(nil), f.settings())

			f.storeTLS("2", issued(t, host, f.Clock.Now()))
			controllertest.ErrorContains(t, "", f.Reconcile().Err)
			f.start()
			settings, connection := f.settings().Data, f.secret().Data
			f.storeTLS("3", c.data(f.Clock.Now()))
			controllertest.ErrorContains(t, c.want, f.Reconcile().Err)
			controllertest.Equal(t, "reason", "InvalidCertificate", f.reason())
			controllertest.Equal(t, "settings", settings, f.settings().Data)
			controllertest.Equal(t, "connection", connection, f.secret().Data)
		})
	}
}

func TestNamedCertificateOfIntermediateAuthorityIsAccepted(t *testing.T) {
	f := newFixture(t, example(withTLSSecret))
	root, err := certificates.Content{}.Renew(certificates.Options{Name: "root", Hosts: []string{"root"}}, f.Clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	sign := func(template, parent *x509.Certificate, signer any) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template.NotBefore, template.NotAfter = f.Clock.Now().Add(-time.Hour), f.Clock.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return parsed, key
	}
	authority := *root.Signer.Leaf
	authority.MaxPathLenZero, authority.MaxPathLen = false, 1
	top, topKey := sign(&authority, &authority, root.Signer.PrivateKey)
	_ = topKey
	middle, middleKey := sign(&x509.Certificate{
		Subject: top.Subject, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, top, topKey)
	leaf, leafKey := sign(&x509.Certificate{DNSNames: []string{"shop.default.svc"}}, middle, middleKey)
	key, err := x509.MarshalECPrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	f.storeTLS("1", map[string][]byte{
		corev1.TLSCertKey: certificates.EncodeBundle(leaf, middle), certificates.KeyBundle: certificates.EncodeBundle(top),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
	})
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "certificates of the server", 2,
		bytes.Count(f.settings().Data[corev1.TLSCertKey], []byte("BEGIN CERTIFICATE")))
}

func TestServerThatKeepsPreviousCertificateIsReported(t *testing.T) {
	f, server := running(t)
	f.Clock.Step(certificates.ServingLifetime * 2 / 3)
	server.seen.Certificate = []byte("previous")
	controllertest.ErrorContains(t, "PostgreSQL has not loaded its new certificate", f.Reconcile().Err)
	block, _ := pem.Decode(f.settings().Data[corev1.TLSCertKey])
	server.seen.Certificate = block.Bytes
	f.Clock.Step(problemRetry)
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
}

// TestIssuedCertificateTakesOverFromNamedCertificate removes tls.secretName: the server keeps the certificate until the
// clients have read the CA of the operator.
func TestIssuedCertificateTakesOverFromNamedCertificate(t *testing.T) {
	f := newFixture(t, example(withTLSSecret))
	f.storeTLS("1", issued(t, "shop.default.svc", f.Clock.Now()))
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	named := f.settings().Data[corev1.TLSCertKey]
	f.Change(func(db *v1alpha1.Database) {
		db.Generation++
		db.Spec.TLS.SecretName = ""
	})
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "certificate", string(named), string(f.settings().Data[corev1.TLSCertKey]))
	f.checkEncryption(f.Clock.Now())
	f.Clock.Step(caOverlap)
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	if bytes.Equal(named, f.settings().Data[corev1.TLSCertKey]) {
		t.Error("the server keeps the named certificate")
	}
	f.checkEncryption(f.Clock.Now())
}
