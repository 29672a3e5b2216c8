//go:build integration

// Package integration tests the shipped controller on a real API server, with a controller manager, a
// scheduler and a simulated node.
package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"windlass.dev/windlass/test/framework"
)

// controllerUser is the user name in the controller's requests.
const controllerUser = framework.ControllerUser

// shared is the cluster of all tests that do not need a cluster of their own.
var shared *framework.Installation

func TestMain(m *testing.M) {
	framework.Main(func(installed *framework.Installation) (code int, err error) {
		shared = installed
		return withControllers(m)
	})
}

func withControllers(m *testing.M) (code int, err error) {
	defer removeSharedServer()
	ctx := context.Background()
	leader, err := framework.StartController(ctx, shared.Cluster)
	if err != nil {
		return 1, err
	}
	standby, err := framework.StartController(ctx, shared.Cluster, "--webhook-url", leader.WebhookURL)
	if err != nil {
		leader.Terminate()
		return 1, err
	}
	code = m.Run()
	for _, p := range []*framework.Process{standby, leader} {
		if ended := p.Terminate(); ended != 0 {
			return 1, fmt.Errorf("a controller ended with exit code %d after SIGTERM; its log:\n%s", ended, p.Log.String())
		}
	}
	if err := errors.Join(checkPermissions(ctx), checkRejections(), checkAdvice()); err != nil && code == 0 {
		return 1, err
	}
	if code != 0 {
		// Print only the path: thousands of log lines would hide the output of the tests.
		return code, leader.KeepLog("integration-controller.log")
	}
	return code, nil
}
