package framework

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Release is a version of Windlass that Build has built.
type Release struct{ root string }

// Build checks out and builds a version of Windlass, given as a commit or tag.
func Build(t *testing.T, commit string) Release {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	r := Release{t.TempDir()}
	archive := filepath.Join(r.root, "source.tar")
	for _, command := range []*exec.Cmd{
		exec.CommandContext(t.Context(), "git", "-C", root, "archive", "--output", archive, commit),
		exec.CommandContext(t.Context(), "tar", "-x", "-f", archive, "-C", r.root),
		exec.CommandContext(t.Context(), "go", "-C", r.root, "build", "-trimpath", "-o", "bin/controller",
			"./cmd/controller"),
	} {
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, output)
		}
	}
	return r
}

// Own returns an installation for one test, with the release installed. The cluster is closed when the test ends.
func (r Release) Own(t *testing.T) *Installation {
	t.Helper()
	p, err := startFrom(t.TempDir(), r.root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// Install applies the manifests of the release in a cluster.
func (r Release) Install(ctx context.Context, p *Installation) error { return p.Install(ctx, r.root) }

// Launch starts the release's controller in a cluster with additional flags, and returns when the controller is ready.
func (r Release) Launch(t *testing.T, c *Cluster, flags ...string) *Process {
	t.Helper()
	p, err := startReady(t.Context(), r.root, c, flags)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
