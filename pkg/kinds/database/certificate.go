package database

import (
	"bytes"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/certificates"
	"windlass.dev/windlass/pkg/kinds/internal/credentials"
)

// certificateSuffix follows the name of the Database in the name of the Secret with its CA and its certificate. The Pod
// does not mount this Secret, which has the key of the CA: the settings Secret has a copy of the certificate.
const certificateSuffix = "-certificate"

// caOverlap is how long clients may take to read a new CA. An App whose Pods have a previous CA rolls in this time.
const caOverlap = 24 * time.Hour

// issuesCertificate reports whether the operator issues the certificate of the server.
func issuesCertificate(db *v1alpha1.Database) bool { return hasTLS(db) && db.Spec.TLS.SecretName == "" }

// desiredCertificate returns the Secret with the CA and the certificate.
func desiredCertificate(db *v1alpha1.Database, content certificates.Content) *corev1.Secret {
	meta := metaOf(db)
	meta.Name += certificateSuffix
	return &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeTLS, Data: content.Data()}
}

// applyCertificate renews the certificate, and applies its Secret by calling ensure.
func (r *reconciler) applyCertificate(
	ctx context.Context, p *scope, ensure func(context.Context, *scope) error,
) (err error) {
	if issuesCertificate(p.db) {
		data, err := r.certificateData(p)
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

// certificateData returns the cached data of the Secret with the CA and the certificate. If somebody has deleted or
// damaged the CA in it, or if the server had another certificate before, certificateData returns the certificate of the
// running server and the CAs that clients trust: a new CA then replaces both without a failed connection.
func (r *reconciler) certificateData(p *scope) (map[string][]byte, error) {
	secret, err := r.certificate.Type().Cache.Get(p.db.Namespace, p.db.Name+certificateSuffix)
	var data map[string][]byte
	switch {
	case err == nil && p.Owns(secret):
		data = secret.Data
	case err != nil && !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading Secret %s/%s from the cache: %w", p.db.Namespace, p.db.Name+certificateSuffix, err)
	}
	if certificates.Parse(data, r.clock.Now()).Signer != nil {
		return data, nil
	}
	running := r.running(p)
	return map[string][]byte{
		certificates.KeyBundle:  bytes.Join([][]byte{data[certificates.KeyBundle], running.authorities}, []byte("\n")),
		corev1.TLSCertKey:       running.certificate,
		corev1.TLSPrivateKeyKey: running.key,
	}, nil
}

// running returns the certificate in the cached settings and the CAs in the cached connection Secret.
func (r *reconciler) running(p *scope) (e encryption) {
	settings, err := r.settings.Type().Cache.Get(p.db.Namespace, settingsName(p.db))
	if err == nil && p.Owns(settings) {
		e.certificate, e.key = settings.Data[corev1.TLSCertKey], settings.Data[corev1.TLSPrivateKeyKey]
	}
	connection, err := r.connection.Type().Cache.Get(p.db.Namespace, credentials.Name(p.db.Name))
	if err == nil && p.Owns(connection) {
		e.authorities = connection.Data[credentials.KeyCA]
	}
	return e
}
