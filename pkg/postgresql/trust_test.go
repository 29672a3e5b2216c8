//go:build integration

package postgresql_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"windlass.dev/windlass/pkg/postgresql"
	"windlass.dev/windlass/test/postgres"
)

// certificate is a certificate with its private key, both parsed and in PEM form.
type certificate struct {
	cert, key []byte
	parsed    *x509.Certificate
	signer    *ecdsa.PrivateKey
}

// newCertificate returns a certificate for a name. It is signed by the authority by, and expires at until. If by
// is nil, newCertificate returns an authority.
func newCertificate(t *testing.T, name string, by *certificate, until time.Time) *certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(wants.Add(1))), Subject: pkix.Name{
			CommonName: name,
		}, NotBefore: until.Add(-48 * time.Hour), NotAfter: until,
	}
	if by == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		by = &certificate{parsed: template, signer: key}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.parsed, &key.PublicKey, by.signer)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificate{
		cert:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		parsed: parsed, signer: key,
	}
}

// withTLS starts a server with a certificate. method is the authentication method in its pg_hba.conf.
func withTLS(t *testing.T, c *certificate, method string) *postgres.Server {
	t.Helper()
	server, err := postgres.NewServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Remove)
	server.Stop()
	if err := server.SetAuthentication(method); err != nil {
		t.Fatal(err)
	}
	settings := []string{"ssl=on"}
	for setting, text := range map[string][]byte{"ssl_cert_file": c.cert, "ssl_key_file": c.key} {
		path, err := server.Write(setting, text)
		if err != nil {
			t.Fatal(err)
		}
		settings = append(settings, setting+"="+path)
	}
	if err := server.Start(t.Context(), settings...); err != nil {
		t.Fatal(err)
	}
	return server
}

func TestTLSModesVerifyServer(t *testing.T) {
	t.Parallel()
	later, earlier := time.Now().Add(24*time.Hour), time.Now().Add(-time.Hour)
	ours, theirs := newCertificate(t, "ours", nil, later), newCertificate(t, "theirs", nil, later)
	good := withTLS(t, newCertificate(t, "localhost", ours, later), "scram-sha-256")
	expired := withTLS(t, newCertificate(t, "localhost", ours, earlier), "scram-sha-256")
	// TestUnverifiedServerGetsNoPassword has servers that ask for the password in other ways.
	cleartext := withTLS(t, newCertificate(t, "localhost", ours, later), "password")
	trusting := withTLS(t, newCertificate(t, "localhost", ours, later), "trust")
	for name, c := range map[string]struct {
		server *postgres.Server
		host   string
		mode   postgresql.TLSMode
		ca     *certificate
		want   postgresql.Class
		ok     bool
	}{
		"verify-full":               {good, "localhost", postgresql.VerifyFull, ours, "", true},
		"verify-full, a wrong CA":   {good, "localhost", postgresql.VerifyFull, theirs, postgresql.Untrusted, false},
		"verify-full, a wrong name": {good, "127.0.0.1", postgresql.VerifyFull, ours, postgresql.Untrusted, false},
		"verify-full, no CA":        {good, "localhost", postgresql.VerifyFull, nil, postgresql.Untrusted, false},
		"verify-full, expired": {
			expired, "localhost", postgresql.VerifyFull, ours, postgresql.Untrusted, false,
		},
		"verify-full, no TLS": {shared, "localhost", postgresql.VerifyFull, ours, postgresql.Untrusted, false},
		"verify-ca":           {good, "localhost", postgresql.VerifyCA, ours, "", true},
		"verify-ca, a wrong name, which is all one": {good, "127.0.0.1", postgresql.VerifyCA, ours, "", true},
		"verify-ca, a wrong CA": {
			good, "127.0.0.1", postgresql.VerifyCA, theirs, postgresql.Untrusted, false,
		},
		"verify-ca, no CA": {good, "localhost", postgresql.VerifyCA, nil, postgresql.Untrusted, false},
		"verify-ca, expired": {
			expired, "localhost", postgresql.VerifyCA, ours, postgresql.Untrusted, false,
		},
		"require": {expired, "127.0.0.1", postgresql.Require, nil, "", true},
		"require, a wrong CA, which is as verify-ca": {
			good, "127.0.0.1", postgresql.Require, theirs, postgresql.Untrusted, false,
		},
		"require, no TLS":          {shared, "127.0.0.1", postgresql.Require, nil, postgresql.Untrusted, false},
		"disable":                  {good, "127.0.0.1", postgresql.Disable, nil, "", true},
		"verify-full, cleartext":   {cleartext, "localhost", postgresql.VerifyFull, ours, "", true},
		"verify-ca, cleartext":     {cleartext, "localhost", postgresql.VerifyCA, ours, "", true},
		"require, a CA, cleartext": {cleartext, "localhost", postgresql.Require, ours, "", true},
		"require, cleartext": {
			cleartext, "localhost", postgresql.Require, nil, postgresql.Unverified, false,
		},
		"disable, a CA, cleartext": {
			cleartext, "localhost", postgresql.Disable, ours, postgresql.Unverified, false,
		},
		"disable, no password": {trusting, "localhost", postgresql.Disable, nil, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			as := settings(c.server)
			as.Host, as.Mode = c.host, c.mode
			if c.ca != nil {
				as.CA = c.ca.cert
			}
			_, err := open(t, as).Exists(t.Context(), newWant())
			if (err == nil) != c.ok || err != nil && postgresql.ClassOf(err) != c.want {
				t.Errorf("got %v of class %s", err, postgresql.ClassOf(err))
			}
		})
	}
}
