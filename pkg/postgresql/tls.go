package postgresql

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"windlass.dev/windlass/pkg/roots"
)

// TLSMode is a value of libpq's sslmode. The values allow and prefer are not supported, because they permit
// connections without TLS.
type TLSMode string

// Modes of TLS.
const (
	// Disable connects without TLS.
	Disable TLSMode = "disable"
	// Require connects with TLS, and does not verify the server. With a CA, it does the same as VerifyCA, as
	// in libpq.
	Require TLSMode = "require"
	// VerifyCA checks the server's certificate, but not the name in it. It requires a CA, as in libpq: a public authority
	// signs certificates for anybody.
	VerifyCA TLSMode = "verify-ca"
	// VerifyFull checks the server's certificate and the name in it.
	VerifyFull TLSMode = "verify-full"
)

var errNoCA = NewError(Untrusted, "sslmode %s requires ca.crt: set ca.crt to the certificate of the authority that "+
	"signed the certificate of the server, or set sslmode to %s", VerifyCA, VerifyFull)

// verified reports whether connections verify the server.
func (s Settings) verified() bool {
	return s.Mode == VerifyFull || (s.Mode == VerifyCA || s.Mode == Require) && len(s.CA) > 0
}

// tls returns the TLS configuration, which is nil for Disable.
func (s Settings) tls() (*tls.Config, error) {
	config := &tls.Config{ServerName: cmp.Or(s.ServerName, s.Host), MinVersion: tls.VersionTLS12}
	if len(s.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(s.CA) {
			return nil, errors.New("ca.crt contains no certificate in PEM form")
		}
	} else if s.verified() {
		if err := roots.Provide(); err != nil {
			return nil, err
		}
	}
	switch s.Mode {
	case Disable:
		return nil, nil
	case VerifyFull:
		return config, nil
	case VerifyCA, Require:
		config.InsecureSkipVerify = true
		if s.Mode == VerifyCA && !s.verified() {
			return nil, errNoCA
		}
		if s.verified() {
			config.VerifyConnection = verifyChain(config.RootCAs)
		}
		return config, nil
	default:
		return nil, fmt.Errorf("sslmode must be %s, %s, %s or %s", VerifyFull, VerifyCA, Require, Disable)
	}
}

// verifyChain returns a function that verifies a certificate as crypto/tls does, except for the name.
func verifyChain(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, certificate := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(certificate)
		}
		if _, err := state.PeerCertificates[0].Verify(options); err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
		}
		return nil
	}
}
