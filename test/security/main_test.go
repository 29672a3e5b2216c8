//go:build integration

// Package security attacks the operator as its users could: as tenants with the role edit in one namespace, as
// PostgreSQL servers that these tenants name, and as clients that reach the operator's ports. Each test carries out one
// attack on a real API server, and then checks that only the attacker is affected. docs/security.md lists the attacks
// and the defences.
package security

import (
	"context"
	"fmt"
	"testing"

	"windlass.dev/windlass/test/framework"
)

// shared is the cluster of all tests that do not stop the controller. controller is the controller of this cluster. It
// has the flags that framework.StartController sets, and --pprof.
var (
	shared     *framework.Installation
	controller *framework.Process
)

func TestMain(m *testing.M) {
	framework.Main(func(installed *framework.Installation) (code int, err error) {
		shared = installed
		return withController(m)
	})
}

func withController(m *testing.M) (code int, err error) {
	if controller, err = framework.StartController(context.Background(), shared.Cluster, "--pprof"); err != nil {
		return 1, err
	}
	code = m.Run()
	if ended := controller.Terminate(); ended != 0 {
		return 1, fmt.Errorf("the controller ended with exit code %d after SIGTERM; its log:\n%s", ended,
			controller.Log.String())
	}
	if code != 0 {
		return code, controller.KeepLog("security-controller.log")
	}
	return code, nil
}
