// Package roots provides root certificates on a system that has none, such as the image of an operator.
package roots

import (
	"crypto/x509"
	"fmt"
	"sync"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Provide lets package x509 use the root certificates of Mozilla if the system has no root certificates. Code that
// verifies a server with the roots of the system must call Provide first. The certificates take 0.4 MB, so Provide
// loads them only when it is called.
//
// Provide returns an error if it cannot read the certificates. A test checks that it can.
func Provide() error { return provide() }

var provide = sync.OnceValue(func() error {
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return fmt.Errorf("reading a root certificate: %w", err)
		}
		if root.Constraint == nil {
			pool.AddCert(certificate)
		} else {
			pool.AddCertWithConstraint(certificate, root.Constraint)
		}
	}
	x509.SetFallbackRoots(pool)
	return nil
})
