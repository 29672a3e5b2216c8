package database

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/certificates"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

// certificateSuffix follows the name of the Database in the name of the Secret with its CA and its certificate. The Pod
// does not mount this Secret, which has the key of the CA: the settings Secret has a copy of the certificate.
const certificateSuffix = "-certificate"

// caOverlap is how long clients may take to read a new CA. The operator replaces the Pods of Apps meanwhile, but does
// not wait for them.
const caOverlap = 24 * time.Hour

// issuesCertificate reports whether the operator issues the certificate of the server.
func issuesCertificate(db *v1alpha1.Database) bool { return hasTLS(db) && db.Spec.TLS.SecretName == "" }

// desiredCertificate returns the Secret with the CA and the certificate.
func desiredCertificate(db *v1alpha1.Database, content certificates.Content) *corev1.Secret {
	meta := metaOf(db)
	meta.Name += certificateSuffix
	return &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeTLS, Data: content.Data()}
}

// applyCertificate renews the certificate, and applies its Secret by calling ensure. A Secret that is not needed any
// more stays: the operator may not delete Secrets.
func (r *reconciler) applyCertificate(
	ctx context.Context, p *scope, ensure func(context.Context, *scope) error,
) (err error) {
	if issuesCertificate(p.db) {
		data, err := r.certificateData(ctx, p)
		if err != nil {
			return err
		}
		now := r.clock.Now()
		o := certificates.Options{Name: "windlass-database", Hosts: hostsOf(p.db), Overlap: caOverlap}
		if p.issued, err = certificates.Parse(data, now).Renew(o, now); err != nil {
			return fmt.Errorf("issuing the certificate of Database %s/%s: %w", p.db.Namespace, p.db.Name, err)
		}
	}
	return ensure(ctx, p)
}

// hostsOf returns the names of the server. The first one is in the connection Secret. The last one is for `kubectl
// port-forward`.
func hostsOf(db *v1alpha1.Database) []string {
	host := hostOf(db)
	return []string{host, host + ".cluster.local", db.Name + "." + db.Namespace, db.Name, "localhost"}
}

// certificateData returns the data of the Secret with the CA and the certificate. If clients do not trust the CA in it,
// because somebody has deleted or damaged the CA, or because the server has a certificate of another CA,
// certificateData returns the certificate of the server and the CAs that clients trust, without the key of the CA: a
// new CA then replaces both without a failed connection.
func (r *reconciler) certificateData(ctx context.Context, p *scope) (map[string][]byte, error) {
	data, err := r.secretData(ctx, p, r.certificate, p.db.Name+certificateSuffix)
	if err != nil {
		return nil, err
	}
	running, err := r.running(ctx, p)
	if err != nil {
		return nil, err
	}
	now := r.clock.Now()
	content, trusted := certificates.Parse(data, now), certificates.ParseBundle(running.authorities, now)
	if content.Signer != nil && (len(trusted) == 0 || slices.ContainsFunc(trusted, content.Signer.Leaf.Equal)) {
		return data, nil
	}
	return map[string][]byte{
		certificates.KeyBundle:  bytes.Join([][]byte{data[certificates.KeyBundle], running.authorities}, []byte("\n")),
		corev1.TLSCertKey:       running.certificate,
		corev1.TLSPrivateKeyKey: running.key,
	}, nil
}

// running returns the certificate in the settings, and the CAs in the connection Secret.
func (r *reconciler) running(ctx context.Context, p *scope) (e encryption, err error) {
	settings, err := r.secretData(ctx, p, r.settings, settingsName(p.db))
	if err != nil {
		return e, err
	}
	connection, err := r.secretData(ctx, p, r.connection, credentials.Name(p.db.Name))
	return encryption{
		settings[corev1.TLSCertKey], settings[corev1.TLSPrivateKeyKey], connection[credentials.KeyCA],
	}, err
}

// secretData returns the data of a Secret that the Database owns or may adopt, or nil. For a Database that has had its
// Secrets before, secretData reads a Secret that the cache lacks from the API server: a tool can have removed the label
// by which the operator caches the Secret.
func (r *reconciler) secretData(
	ctx context.Context, p *scope, of *children.Declaration[*scope, *corev1.Secret], name string,
) (map[string][]byte, error) {
	secret, err := of.Type().Cache.Get(p.db.Namespace, name)
	if apierrors.IsNotFound(err) && p.db.Status.Binding != nil {
		var found bool
		if secret, found, err = of.Type().Live(ctx, p.Owner, name); err == nil && !found {
			return nil, nil
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s/%s: %w", p.db.Namespace, name, err)
	case !p.Owns(secret) && !p.MayAdopt(secret):
		return nil, nil
	}
	return secret.Data, nil
}
