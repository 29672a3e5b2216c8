package database

import (
	"bytes"
	"context"
	"encoding/pem"

	corev1 "k8s.io/api/core/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/certificates"
	"windlass.dev/windlass/pkg/postgresql"
)

// encryption is what the server and its clients need for TLS, in PEM form. The zero value is a server without TLS.
type encryption struct {
	certificate, key []byte // of the server
	authorities      []byte // the CAs that clients trust
}

// hasTLS reports whether the server of a Database has TLS.
func hasTLS(db *v1alpha1.Database) bool { return db.Spec.TLS.Mode != v1alpha1.TLSDisabled }

// encryptionOf returns the encryption in the data of a Secret.
func encryptionOf(data map[string][]byte) encryption {
	return encryption{data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], data[certificates.KeyBundle]}
}

// settings returns how to connect to the server, with the mode and the CAs in addition to s.
func (e encryption) settings(s postgresql.Settings) postgresql.Settings {
	if len(e.certificate) == 0 {
		s.Mode = postgresql.Disable
		return s
	}
	s.Mode, s.CA = postgresql.VerifyFull, e.authorities
	return s
}

// isServed reports whether a server presents the certificate. presented is in DER form.
func (e encryption) isServed(presented []byte) bool {
	block, _ := pem.Decode(e.certificate)
	return block != nil && bytes.Equal(block.Bytes, presented)
}

// encrypt sets p.encryption. If the Secret that spec.tls names cannot be used, encrypt sets p.cannotEncrypt and keeps
// the certificate that the server has. encrypt returns an error if the server has none.
func (r *reconciler) encrypt(ctx context.Context, p *scope) error {
	switch {
	case !hasTLS(p.db):
		return nil
	case issuesCertificate(p.db):
		p.encryption = encryptionOf(p.issued.Data())
		return nil
	}
	named, problem, err := r.named.get(ctx, p.db)
	if err != nil {
		return err
	}
	if problem == nil {
		p.encryption = named
		return nil
	}
	running, err := r.running(ctx, p)
	if err != nil {
		return err
	}
	if len(running.certificate) == 0 || len(running.authorities) == 0 {
		return problem
	}
	p.encryption, p.cannotEncrypt = running, problem
	return nil
}
