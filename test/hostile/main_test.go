//go:build integration

// Package hostile attacks the operator as its users could: tenants who have the role edit in
// one namespace, PostgreSQL servers that they name, and whoever reaches the ports. Each test
// carries out one attack on a real API server, and then shows that nobody but the attacker is
// worse off. docs/security.md lists the attacks, and says what stops each.
package hostile

import (
	"context"
	"fmt"
	"os"
	"testing"

	"windlass.dev/windlass/test/place"
)

// shared is the cluster of all tests that do not stop its controller. Its controller runs with
// the default flags, except for those that place.StartController sets.
var (
	shared     *place.Place
	controller *place.Process
)

func TestMain(m *testing.M) {
	code, err := withCluster(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withCluster(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "windlass-hostile")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if shared, err = place.Start(dir); err != nil {
		return 1, err
	}
	defer shared.Close()
	if controller, err = place.StartController(context.Background(), shared.Cluster, "--pprof"); err != nil {
		return 1, err
	}
	code = m.Run()
	if ended := controller.Terminate(); ended != 0 {
		return 1, fmt.Errorf("the controller ended with exit code %d after SIGTERM; its log:\n%s", ended, controller.Log.String())
	}
	if code != 0 {
		return code, controller.KeepLog("hostile-controller.log")
	}
	return code, nil
}
