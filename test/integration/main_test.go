//go:build integration

// Package integration tests the controller as it is shipped, on a real API server
// with a controller manager, a scheduler and a simulated node.
package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"windlass.dev/windlass/test/cluster"
)

// controllerUser is whom the controller's requests come from.
const controllerUser = "system:serviceaccount:windlass-system:windlass-controller"

// shared is the place of all tests that do not break theirs.
var shared *place

func TestMain(m *testing.M) {
	code, err := withCluster(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withCluster(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "windlass-test")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if shared, err = startPlace(dir); err != nil {
		return 1, err
	}
	defer shared.Close()
	defer removeOutside()
	ctx := context.Background()
	leader, err := startController(ctx, shared.Cluster)
	if err != nil {
		return 1, err
	}
	standby, err := startController(ctx, shared.Cluster, "--webhook-url", leader.webhookURL)
	if err != nil {
		leader.terminate()
		return 1, err
	}
	code = m.Run()
	for _, p := range []*process{standby, leader} {
		if ended := p.terminate(); ended != 0 {
			return 1, fmt.Errorf("a controller ended with exit code %d after SIGTERM; its log:\n%s", ended, p.log.String())
		}
	}
	if err := checkRights(ctx); err != nil && code == 0 {
		return 1, err
	}
	if code != 0 {
		// Thousands of lines would hide what the tests said.
		return code, leader.keepLog()
	}
	return code, nil
}

// install applies what a user would apply, but for the Deployment: the controller
// runs out of cluster here.
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
