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
	root, err := cluster.Root()
	if err != nil {
		return nil, err
	}
	return startFrom(dir, root)
}

// startFrom is Start for the manifests of the checkout at root.
func startFrom(dir, root string) (*Place, error) {
	c, err := cluster.Start(dir, cluster.Audit)
	if err != nil {
		return nil, err
	}
	w, err := world.New(c.Config())
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	p := &Place{c, w}
	if err := p.Install(context.Background(), root); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return p, nil
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

// Install applies what a user of the checkout at root would apply, except for the Deployment: the
// controller runs out of cluster here.
func (p *Place) Install(ctx context.Context, root string) error {
	for _, manifest := range []string{"crds", "deploy/namespace.yaml", "rbac"} {
		if _, err := p.Kubectl(ctx, "", "apply", "-f", filepath.Join(root, "artifacts", manifest)); err != nil {
			return err
		}
	}
	_, err := p.Kubectl(ctx, "", "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
	return err
}
