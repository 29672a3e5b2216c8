//go:build integration

package neighbours

import (
	"context"
	"fmt"
	"testing"

	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/postgres"
)

var (
	// shared is the cluster of all tests, and operator is the operator in this cluster.
	shared   *framework.Installation
	operator *framework.Process
	// server is a PostgreSQL server outside of the cluster, for ExternalDatabases.
	server *postgres.Server
)

func TestMain(m *testing.M) {
	framework.Main(func(installed *framework.Installation) (code int, err error) {
		shared = installed
		if server, err = postgres.NewServer(context.Background()); err != nil {
			return 1, err
		}
		defer server.Remove()
		if operator, err = framework.StartController(context.Background(), shared.Cluster); err != nil {
			return 1, err
		}
		code = m.Run()
		if ended := operator.Terminate(); ended != 0 {
			return 1, fmt.Errorf("the operator ended with exit code %d after SIGTERM; its log:\n%s", ended,
				operator.Log.String())
		}
		if code != 0 {
			return code, operator.KeepLog("neighbours-controller.log")
		}
		return code, nil
	})
}
