package database

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/certificates"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// withTLSSecret is a change that names a Secret with a certificate.
func withTLSSecret(db *v1alpha1.Database) { db.Spec.TLS.SecretName = "shop-tls" }

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
	if err != nil || !pair.IsTrusted(bundle, now) || pair.Leaf.VerifyHostname("shop.default.svc") != nil {
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

// TestCAStaysAlthoughToolsInterfere shows that no act of another client on one object makes a new CA, which would
// replace the Pods of all Apps.
func TestCAStaysAlthoughToolsInterfere(t *testing.T) {
	for name, interfere := range map[string]func(fixture){
		"a Secret loses the label by which the operator caches it": func(f fixture) {
			kindtest.Change(f.Cluster, "default", "shop-certificate", func(s *corev1.Secret) {
				delete(s.Labels, controller.ManagedByLabel)
			})
		},
		"the certificate in the settings is damaged": func(f fixture) {
			kindtest.Change(f.Cluster, "default", "shop-settings", func(s *corev1.Secret) {
				s.Data[corev1.TLSCertKey] = []byte("none")
			})
		},
		"the certificate in its Secret is damaged": func(f fixture) {
			kindtest.Change(f.Cluster, "default", "shop-certificate", func(s *corev1.Secret) {
				delete(s.Data, corev1.TLSPrivateKeyKey)
			})
		},
		"the connection Secret is deleted": func(f fixture) { f.Remove(f.secret()) },
		"the settings are deleted":         func(f fixture) { f.Remove(f.settings()) },
		"the clock is set back by an hour": func(f fixture) { f.Clock.SetTime(f.Clock.Now().Add(-time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t)
			before := string(f.secret().Data[credentials.KeyCA])
			interfere(f)
			for range 2 {
				controllertest.ErrorContains(t, "", f.Reconcile().Err)
				f.start()
			}
			controllertest.Equal(t, "CA", before, string(f.secret().Data[credentials.KeyCA]))
			f.checkEncryption(f.Clock.Now().Add(time.Hour))
			controllertest.Equal(t, "writes at rest", []string(nil), f.Reconcile().Writes)
		})
	}
}

// TestAdoptedSecretKeepsCA deletes the Database with --cascade=orphan, creates it again, and lets it adopt its Secrets.
func TestAdoptedSecretKeepsCA(t *testing.T) {
	f := readyFixture(t)
	before := string(f.secret().Data[credentials.KeyCA])
	for _, name := range []string{"shop-certificate", "shop-credentials", "shop-settings"} {
		kindtest.Change(f.Cluster, "default", name, func(s *corev1.Secret) {
			s.OwnerReferences, s.Annotations[children.AdoptAnnotation] = nil, "Database/shop"
		})
	}
	f.Change(withUID("another-uid"))
	_ = f.Reconcile() // the other children have no annotation
	controllertest.Equal(t, "CA", before, string(f.secret().Data[credentials.KeyCA]))
	controllertest.Equal(t, "owner", types.UID("another-uid"), f.certificate().OwnerReferences[0].UID)
}

// TestCAThatCannotIssueIsReplaced stores a valid CA that may sign no certificate of a server.
func TestCAThatCannotIssueIsReplaced(t *testing.T) {
	f := readyFixture(t)
	theirs := newSigned(t, f.Clock.Now(), x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, PermittedDNSDomainsCritical: true,
		PermittedDNSDomains: []string{"example.com"},
	}, nil)
	kindtest.Change(f.Cluster, "default", "shop-certificate", func(s *corev1.Secret) {
		s.Data = map[string][]byte{
			certificates.KeyBundle: certificates.EncodeBundle(theirs.certificate), certificates.KeyAuthority: theirs.pem(t),
		}
	})
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	f.checkEncryption(f.Clock.Now())
	f.start()
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "writes at rest", []string(nil), f.Reconcile().Writes)
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
		patchSecret, patchSettings, updateStatus,
	}, r.Writes)
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		controllertest.Equal(t, key, "", string(f.settings().Data[key]))
	}
	controllertest.Equal(t, "sslmode", "disable", string(f.secret().Data[credentials.KeyTLSMode]))
	controllertest.Equal(t, "ca.crt", "", string(f.secret().Data[credentials.KeyCA]))
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
	f := newFixture(t, example()) // the Secret of the operator stays
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	f.Clock.Step(2 * caOverlap)
	f.storeTLS("1", issued(t, "shop.default.svc", f.Clock.Now()))
	f.Change(withTLSSecret)
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
