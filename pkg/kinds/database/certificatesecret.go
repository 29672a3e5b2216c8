package database

import (
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/certificates"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/references"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

const (
	// maxChain limits tls.crt and tls.key together, in bytes. The operator accepts 64 KiB from a server before the login.
	maxChain = 32 << 10
	// minRSA is the minimum size of an RSA key, in bits. OpenSSL in Debian rejects smaller keys.
	minRSA = 2048
	// maxCertificates is how many Secrets are remembered. Others are read again in each reconcile that needs them.
	maxCertificates = 1 << 10
	// certificateRecheck is how often a Database is reconciled while its Secret is missing or invalid, in case an event
	// is lost, or the time makes it valid.
	certificateRecheck = time.Minute
)

// certificateSecrets reads the Secrets that spec.tls.secretName names. Each version of a Secret is read once.
type certificateSecrets struct {
	secrets coreclient.SecretsGetter
	known   references.Named
	// databases finds the Databases that name a Secret.
	databases references.Index
	memo      *references.Memo[certificateSecret]
	clock     clock.PassiveClock
}

// certificateSecret is the content of a Secret. err says what is wrong with it at any time, or is nil.
type certificateSecret struct {
	encryption
	chain []*x509.Certificate // the certificate of the server comes first
	roots *x509.CertPool
	err   error
}

func newCertificateSecrets(
	c kinds.Cluster, databases cache.SharedIndexInformer, now clock.PassiveClock,
) (*certificateSecrets, error) {
	known, err := references.NewNamed(c.Others, corev1.SchemeGroupVersion.WithResource("secrets"), c.Secrets().Informer)
	if err != nil {
		return nil, err
	}
	index, err := references.NewIndex(databases, "tlsSecret", func(db *v1alpha1.Database) []string {
		if db.Spec.TLS.SecretName == "" {
			return nil
		}
		return []string{cache.NewObjectName(db.Namespace, db.Spec.TLS.SecretName).String()}
	})
	return &certificateSecrets{
		secrets: c.Kube.CoreV1(), known: known, databases: index,
		memo: references.NewMemo[certificateSecret](maxCertificates), clock: now,
	}, err
}

// References returns the References to the Secrets.
func (c *certificateSecrets) References() (all []controller.Reference) {
	for _, informer := range c.known.Informers() {
		all = append(all, controller.Reference{Informer: informer, Referrers: c.databases.Of})
	}
	return all
}

// get returns the content of the Secret that a Database names. It returns a WaitFor error while the Secret is missing,
// and a Stalled error if the Secret cannot be used.
func (c *certificateSecrets) get(ctx context.Context, db *v1alpha1.Database) (e encryption, err error) {
	name := db.Spec.TLS.SecretName
	version, err := c.known.Get(db.Namespace, name)
	var found certificateSecret
	if err == nil {
		found, err = c.memo.Of(ctx, version, func(ctx context.Context) (certificateSecret, error) {
			secret, err := c.secrets.Secrets(db.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return certificateSecret{}, err
			}
			return parseCertificate(secret.Data), nil
		})
	}
	switch {
	case apierrors.IsNotFound(err):
		return e, messageNoCertificate.Wait(certificateRecheck, name)
	case err != nil:
		return e, fmt.Errorf("reading Secret %s/%s: %w", db.Namespace, name, err)
	}
	if err := found.check(hostOf(db), c.clock.Now()); err != nil {
		return e, controller.Stalled(messageInvalidCertificate.Error(name, err), certificateRecheck)
	}
	return found.encryption, nil
}

// parseCertificate decodes the data of a Secret. The result has only blocks that are certificates, and the key in PKCS
// #8, so that PostgreSQL reads exactly what was checked.
func parseCertificate(data map[string][]byte) (c certificateSecret) {
	invalid := func(err error) certificateSecret { return certificateSecret{err: err} }
	if len(data[corev1.TLSCertKey])+len(data[corev1.TLSPrivateKeyKey]) > maxChain {
		return invalid(errors.New(messageLargeCertificate.With(maxChain >> 10)))
	}
	if len(data[certificates.KeyBundle]) > credentials.MaxCA {
		return invalid(errors.New(messageLargeAuthorities.With(credentials.MaxCA >> 10)))
	}
	pair, err := certificates.ParsePair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return invalid(errors.New(messageNoPair.With(err)))
	}
	switch key := pair.PrivateKey.(type) {
	case *rsa.PrivateKey:
		if key.N.BitLen() < minRSA {
			return invalid(errors.New(messageWeakKey.With(minRSA)))
		}
	case *ecdsa.PrivateKey:
	default: // SCRAM with channel binding fails for Ed25519, because its certificates have no hash function (RFC 5929)
		return invalid(errors.New(messageWeakKey.With(minRSA)))
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return invalid(errors.New(messageNoPair.With(err)))
	}
	for _, der := range pair.Certificate.Certificate {
		parsed, err := x509.ParseCertificate(der)
		if err != nil {
			return invalid(errors.New(messageNoPair.With(err)))
		}
		c.chain = append(c.chain, parsed)
	}
	c.roots = x509.NewCertPool()
	if !c.roots.AppendCertsFromPEM(data[certificates.KeyBundle]) {
		return invalid(errors.New(messageNoAuthority.With()))
	}
	c.certificate, c.authorities = certificates.EncodeBundle(c.chain...), data[certificates.KeyBundle]
	c.key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	return c
}

// check returns an error if a client does not accept the certificate as the certificate of host now.
func (c certificateSecret) check(host string, now time.Time) error {
	if c.err != nil {
		return c.err
	}
	leaf := c.chain[0]
	switch {
	case now.Before(leaf.NotBefore):
		return errors.New(messageNotYetValid.With(leaf.NotBefore.UTC().Format(time.RFC3339)))
	case now.After(leaf.NotAfter):
		return errors.New(messageExpired.With(leaf.NotAfter.UTC().Format(time.RFC3339)))
	case leaf.VerifyHostname(host) != nil:
		return errors.New(messageOtherHost.With(host))
	}
	issuers := x509.NewCertPool()
	for _, issuer := range c.chain[1:] {
		issuers.AddCert(issuer)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: c.roots, Intermediates: issuers, CurrentTime: now}); err != nil {
		return errors.New(messageOtherAuthority.With())
	}
	return nil
}
