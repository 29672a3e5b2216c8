package controllertest

import (
	"bytes"
	"crypto/x509"
	"os"
	"os/exec"
	"testing"
)

// rootless is the environment variable that marks a process of WithoutSystemRoots.
const rootless = "WINDLASS_TEST_ROOTLESS"

// WithoutSystemRoots runs a test in a process of its own that finds no root certificates on its system, like a process
// in the image. t must not be a subtest.
func WithoutSystemRoots(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv(rootless) != "" {
		test(t)
		return
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	nothing := t.TempDir()
	command.Env = append(os.Environ(), rootless+"=1", "SSL_CERT_FILE="+nothing+"/none", "SSL_CERT_DIR="+nothing)
	output, err := command.CombinedOutput()
	if err != nil || !bytes.Contains(output, []byte("PASS")) {
		t.Errorf("%v: %s", err, output)
	}
}

// HasRoots reports whether the process has root certificates with which it verifies servers by default.
func HasRoots() bool {
	roots, err := x509.SystemCertPool()
	return err == nil && !roots.Equal(x509.NewCertPool())
}
