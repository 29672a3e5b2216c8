//go:build integration

package faults

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/postgres"
)

// harnessStarter returns a function that stops the previous harness and starts a new harness.
func harnessStarter(t *testing.T) func() *harness {
	t.Helper()
	stop := func() {}
	t.Cleanup(func() { stop() })
	return func() *harness {
		stop()
		var h *harness
		h, stop = startHarness(t)
		return h
	}
}

// startHarness returns a harness on its own PostgreSQL server and its own API server, without Kubernetes' controllers,
// and a function that stops the harness and the servers.
func startHarness(t *testing.T) (*harness, func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		t.Fatal(err)
	}
	c, err := framework.StartCluster(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, component := range []string{"kube-controller-manager", "kube-scheduler", "kwok"} {
		if err := c.Stop(component); err != nil {
			t.Fatal(err)
		}
	}
	root, err := framework.Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), "", "apply", "-f", filepath.Join(root, "artifacts", "crds")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), "", "wait", "--for=condition=Established", "crd", "--all",
		"--timeout=60s"); err != nil {
		t.Fatal(err)
	}
	server, err := postgres.NewServer(t.Context(), serverSettings...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h, err := newHarness(ctx, c.Config(), server)
	if err != nil {
		t.Fatal(err)
	}
	return h, func() {
		cancel()
		server.Remove()
		_ = c.Close()
		_ = os.RemoveAll(dir)
	}
}

// serverSettings turn off the log of the PostgreSQL server, because no test reads it.
var serverSettings = []string{"log_statement=none", "log_min_messages=panic", "log_min_error_statement=panic"}
