package database

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
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
	// maxCertificates is how many Secrets are remembered: up to 14 MiB. Others are read again in each reconcile.
	maxCertificates = 64
	// certificateRecheck is how often a Database is reconciled while its Secret is missing or invalid, in case an event
	// is lost, or the time makes it valid.
	certificateRecheck = time.Minute
)

// namedCertificates reads the Secrets that spec.tls.secretName names. Each version of a Secret is read once.
type namedCertificates struct {
	secrets coreclient.SecretsGetter
	known   references.Named
	// databases finds the Databases that name a Secret.
	databases references.Index
	memo      *references.Memo[namedCertificate]
	clock     clock.PassiveClock
}

// namedCertificate is the content of a Secret. err says what is wrong with it at any time, or is nil.
type namedCertificate struct {
	pair  *certificates.Pair
	roots []*x509.Certificate
	err   error
}

func newNamedCertificates(
	c kinds.Cluster, databases cache.SharedIndexInformer, now clock.PassiveClock,
) (*namedCertificates, error) {
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
	return &namedCertificates{
		secrets: c.Kube.CoreV1(), known: known, databases: index,
		memo: references.NewMemo[namedCertificate](maxCertificates), clock: now,
	}, err
}

// References returns the References to the Secrets.
func (c *namedCertificates) References() (all []controller.Reference) {
	for _, informer := range c.known.Informers() {
		all = append(all, controller.Reference{Informer: informer, Referrers: c.databases.Of})
	}
	return all
}

// get returns the content of the Secret that a Database names. problem is a WaitFor error while the Secret is missing,
// and a Stalled error if the Secret cannot be used.
func (c *namedCertificates) get(ctx context.Context, db *v1alpha1.Database) (e encryption, problem, err error) {
	name := db.Spec.TLS.SecretName
	version, err := c.known.Get(db.Namespace, name)
	var found namedCertificate
	if err == nil {
		found, err = c.memo.Of(ctx, version, func(ctx context.Context) (namedCertificate, error) {
			secret, err := c.secrets.Secrets(db.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return namedCertificate{}, err
			}
			return parseNamed(secret.Data), nil
		})
	}
	switch {
	case apierrors.IsNotFound(err):
		return e, messageNoCertificate.Wait(certificateRecheck, name), nil
	case err != nil:
		return e, nil, fmt.Errorf("reading Secret %s/%s: %w", db.Namespace, name, err)
	}
	if e, err = found.encryption(hostOf(db), c.clock.Now()); err != nil {
		return e, controller.Stalled(messageInvalidCertificate.Error(name, err), certificateRecheck), nil
	}
	return e, nil, nil
}

// parseNamed decodes the data of a Secret.
func parseNamed(data map[string][]byte) (c namedCertificate) {
	if len(data[corev1.TLSCertKey])+len(data[corev1.TLSPrivateKeyKey]) > maxChain {
		return namedCertificate{err: errors.New(messageLargeCertificate.With(maxChain >> 10))}
	}
	if len(data[certificates.KeyBundle]) > credentials.MaxCA {
		return namedCertificate{err: errors.New(messageLargeAuthorities.With(credentials.MaxCA >> 10))}
	}
	var err error
	c.pair, err = certificates.ParsePair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	switch {
	case errors.Is(err, certificates.ErrKey):
		return namedCertificate{err: errors.New(messageWeakKey.With(certificates.MinRSA))}
	case err != nil:
		return namedCertificate{err: errors.New(messageNoPair.With(err))}
	}
	if c.roots = certificates.ParseCertificates(data[certificates.KeyBundle]); len(c.roots) == 0 {
		return namedCertificate{err: errors.New(messageNoAuthority.With())}
	}
	return c
}

// encryption returns the certificate with exactly the chain that was verified, and the CAs. It returns an error if a
// client does not accept the certificate as the certificate of host now.
func (c namedCertificate) encryption(host string, now time.Time) (e encryption, err error) {
	if c.err != nil {
		return e, c.err
	}
	leaf := c.pair.Leaf
	switch {
	case now.Before(leaf.NotBefore):
		return e, errors.New(messageNotYetValid.With(leaf.NotBefore.UTC().Format(time.RFC3339)))
	case now.After(leaf.NotAfter):
		return e, errors.New(messageExpired.With(leaf.NotAfter.UTC().Format(time.RFC3339)))
	case leaf.VerifyHostname(host) != nil:
		return e, errors.New(messageOtherHost.With(host))
	}
	chains, err := c.pair.Verify(c.roots, now)
	if err != nil {
		return e, errors.New(messageOtherAuthority.With())
	}
	for _, chain := range chains {
		if err = checkChain(chain); err == nil {
			return encryption{
				certificate: certificates.EncodeBundle(chain[:max(1, len(chain)-1)]...), key: c.pair.Key,
				authorities: certificates.EncodeBundle(c.roots...),
			}, nil
		}
	}
	return e, err
}

// checkChain returns an error if libpq does not accept a chain that Go has verified:
//   - OpenSSL requires the CA that has signed itself, and rejects RSA keys that are too small in each certificate.
//   - SCRAM with channel binding uses the hash function of the signature of the certificate, and Ed25519 has none
//     (RFC 5929, section 4.1).
func checkChain(chain []*x509.Certificate) error {
	root := chain[len(chain)-1]
	signs := root.CheckSignature(root.SignatureAlgorithm, root.RawTBSCertificate, root.Signature)
	if signs != nil && len(chain) > 1 {
		return errors.New(messageNoRoot.With())
	}
	for _, c := range chain {
		if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() < certificates.MinRSA {
			return errors.New(messageWeakKey.With(certificates.MinRSA))
		}
	}
	if chain[0].SignatureAlgorithm == x509.PureEd25519 {
		return errors.New(messageWeakKey.With(certificates.MinRSA))
	}
	return nil
}
