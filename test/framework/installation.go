package framework

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// ControllerUser is the user name in the requests of a controller.
const ControllerUser = "system:serviceaccount:windlass-system:windlass-controller"

// Installation is a cluster with Windlass installed, and the clients of the cluster.
type Installation struct {
	*Cluster
	*Clients

	// StopGateways stops the simulated controller of Gateways.
	StopGateways func()
}

// Main runs the tests of a suite, which share an installation, and ends the process. run runs the tests, and returns
// their exit code. TestMain calls Main.
func Main(run func(shared *Installation) (code int, err error)) { Exit(withInstallation(run)) }

// Exit ends the process of a suite with an exit code. After an error, Exit prints the error, and the exit code is 1.
func Exit(code int, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withInstallation(run func(shared *Installation) (code int, err error)) (code int, err error) {
	dir, err := os.MkdirTemp("", "windlass-test")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	shared, err := Start(dir)
	if err != nil {
		return 1, err
	}
	defer shared.Close()
	return run(shared)
}

// Start starts a cluster with its files in dir, and installs Windlass and the routes of Gateway API, which a simulated
// controller of Gateways accepts. The caller closes the cluster.
func Start(dir string) (*Installation, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	return startFrom(dir, root)
}

// startFrom starts a cluster with its files in dir, and installs the manifests of the checkout at root.
func startFrom(dir, root string) (*Installation, error) {
	c, err := StartCluster(dir, Audit, RareGC)
	if err != nil {
		return nil, err
	}
	w, err := NewClients(c.Config())
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	p := &Installation{Cluster: c, Clients: w}
	if err := p.InstallGatewayAPI(context.Background()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := p.Install(context.Background(), root); err != nil { // waits for all CustomResourceDefinitions
		return nil, errors.Join(err, c.Close())
	}
	p.StartGateways()
	return p, nil
}

// Close stops the cluster and all its processes.
func (p *Installation) Close() error {
	p.StopGateways()
	return p.Cluster.Close()
}

// Own returns an installation for one test. The test may break the cluster. The cluster is closed when the test ends.
// The start of a cluster takes as much CPU time as most tests, so Own calls InQuarter.
func Own(t *testing.T) *Installation {
	t.Helper()
	InQuarter(t)
	p, err := Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// Install applies the manifests of the checkout at root, except for the Deployment: in these tests
// the controller runs outside of the cluster.
func (p *Installation) Install(ctx context.Context, root string) error {
	apply := []string{"apply"}
	for _, manifest := range []string{"crds", "deploy/namespace.yaml", "rbac", "policies"} {
		path := filepath.Join(root, "artifacts", manifest)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue // a release without policies
		}
		apply = append(apply, "-f", path)
	}
	if _, err := p.Kubectl(ctx, "", apply...); err != nil {
		return err
	}
	_, err := p.Kubectl(ctx, "", "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
	return err
}
