//go:build integration

package faults

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"windlass.dev/windlass/test/cluster"
	"windlass.dev/windlass/test/postgres"
)

// starting returns what makes a harness, and ends the one that it has made before.
func starting(t *testing.T) func() *harness {
	t.Helper()
	end := func() {}
	t.Cleanup(func() { end() })
	return func() *harness {
		end()
		var h *harness
		h, end = started(t)
		return h
	}
}

// started returns a harness on an API server of its own, where nobody is but it, and what
// ends that.
func started(t *testing.T) (*harness, func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, component := range []string{"kube-controller-manager", "kube-scheduler", "kwok"} {
		if err := c.Stop(component); err != nil {
			t.Fatal(err)
		}
	}
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), "", "apply", "-f", filepath.Join(root, "artifacts", "crds")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), "", "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"); err != nil {
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

// serverSettings have the PostgreSQL server log nothing, since nobody reads it here.
var serverSettings = []string{"log_statement=none", "log_min_messages=panic", "log_min_error_statement=panic"}
