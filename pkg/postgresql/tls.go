package postgresql

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// TLSMode is one of libpq's modes of sslmode that do the same each time.
type TLSMode string

// Modes of TLS.
const (
	// Disable talks without TLS.
	Disable TLSMode = "disable"
	// Require talks by TLS to whoever is there; with a CA as VerifyCA, as in libpq.
	Require TLSMode = "require"
	// VerifyCA checks the server's certificate, but not its name.
	VerifyCA TLSMode = "verify-ca"
	// VerifyFull checks the server's certificate and name.
	VerifyFull TLSMode = "verify-full"
)

// verified tells whether the server proves who it is.
func (s Settings) verified() bool {
	return s.Mode == VerifyFull || s.Mode == VerifyCA || s.Mode == Require && len(s.CA) > 0
}

// tls is how to encrypt; nil means not at all.
func (s Settings) tls() (*tls.Config, error) {
	config := &tls.Config{ServerName: s.Host, MinVersion: tls.VersionTLS12}
	if len(s.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(s.CA) {
			return nil, errors.New("ca has no certificate in PEM form")
		}
	}
	switch s.Mode {
	case Disable:
		return nil, nil
	case VerifyFull:
		return config, nil
	case VerifyCA, Require:
		config.InsecureSkipVerify = true
		if s.verified() {
			config.VerifyConnection = verifyChain(config.RootCAs)
		}
		return config, nil
	default:
		return nil, fmt.Errorf("sslmode must be %s, %s, %s or %s", VerifyFull, VerifyCA, Require, Disable)
	}
}

// verifyChain checks a certificate as crypto/tls does, but for the name.
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
