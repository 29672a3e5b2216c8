package main

import (
	"bytes"
	"crypto/x509"
	"errors"
	"os"
	"os/exec"
	"testing"
)

// systemless is the environment variable that marks the process that TestDefaultRootsExistWithoutSystemRoots
// starts.
const systemless = "WINDLASS_TEST_SYSTEMLESS"

// TestDefaultRootsExistWithoutSystemRoots verifies a certificate with the default roots in a process that
// finds no root certificates on its system, like a process in the image.
func TestDefaultRootsExistWithoutSystemRoots(t *testing.T) {
	if os.Getenv(systemless) != "" {
		roots, err := x509.SystemCertPool()
		if err != nil || roots.Equal(x509.NewCertPool()) {
			t.Fatalf("there are no roots: %v", err)
		}
		_, err = new(x509.Certificate).Verify(x509.VerifyOptions{})
		var none x509.SystemRootsError
		if errors.As(err, &none) {
			t.Fatal(err)
		}
		return
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	nothing := t.TempDir()
	command.Env = append(os.Environ(), systemless+"=1", "SSL_CERT_FILE="+nothing+"/none", "SSL_CERT_DIR="+nothing)
	output, err := command.CombinedOutput()
	if err != nil || !bytes.Contains(output, []byte("PASS")) {
		t.Errorf("%v: %s", err, output)
	}
}
