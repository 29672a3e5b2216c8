//go:build integration

package faults

import (
	"context"
	"path/filepath"
	"testing"

	"windlass.dev/windlass/test/cluster"
	"windlass.dev/windlass/test/postgres"
)

// started returns a harness on an API server of its own, where nobody is but it.
func started(t *testing.T) *harness {
	t.Helper()
	c, err := cluster.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
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
	t.Cleanup(server.Remove)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	h, err := newHarness(ctx, c.Config(), server)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// serverSettings have the PostgreSQL server log nothing, since nobody reads it here.
var serverSettings = []string{"log_statement=none", "log_min_messages=panic", "log_min_error_statement=panic"}
