// Package place is a cluster in which Windlass is installed, with controllers that run as they
// are shipped. Their requests come from the service account that artifacts/rbac describes.
package place

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"windlass.dev/windlass/test/cluster"
	"windlass.dev/windlass/test/world"
)

// ControllerUser is the user whose requests are those of a controller.
const ControllerUser = "system:serviceaccount:windlass-system:windlass-controller"

// Place is a cluster and what is done there.
type Place struct {
	*cluster.Cluster
	*world.World
}

// Start starts a cluster whose files are in dir, and installs Windlass there. The caller closes
// it.
func Start(dir string) (*Place, error) {
	c, err := cluster.Start(dir, cluster.Audit)
	if err != nil {
		return nil, err
	}
	w, err := world.New(c.Config())
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := install(context.Background(), c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &Place{c, w}, nil
}

// Own returns a place for a test that breaks its cluster.
func Own(t *testing.T) *Place {
	t.Helper()
	p, err := Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// install applies what a user would apply, except for the Deployment: the controller runs out
// of cluster here.
func install(ctx context.Context, c *cluster.Cluster) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	for _, manifest := range []string{"crds", "deploy/namespace.yaml", "rbac"} {
		if _, err := c.Kubectl(ctx, "", "apply", "-f", filepath.Join(root, "artifacts", manifest)); err != nil {
			return err
		}
	}
	_, err = c.Kubectl(ctx, "", "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
	return err
}
