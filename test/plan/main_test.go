//go:build integration

// Package plan tests on a real API server that a plan predicts what happens. It compares the planned writes and SQL
// statements with the writes and statements of the operator.
package plan

import (
	"context"
	"testing"

	"windlass.dev/windlass/test/framework"
	"windlass.dev/windlass/test/postgres"
)

var (
	// shared is the cluster of all tests, and operating the operator that runs in it.
	shared    *framework.Installation
	operating *running
	// server is the PostgreSQL server of all ExternalDatabases.
	server *postgres.Server
)

func TestMain(m *testing.M) {
	framework.Main(func(installed *framework.Installation) (code int, err error) {
		shared = installed
		return withOperator(m)
	})
}

func withOperator(m *testing.M) (code int, err error) {
	if server, err = postgres.NewServer(context.Background()); err != nil {
		return 1, err
	}
	defer server.Remove()
	ctx, stop := context.WithCancel(context.Background())
	if operating, err = operate(ctx, shared.Config()); err != nil {
		stop()
		return 1, err
	}
	code = m.Run()
	stop()
	operating.wait()
	return code, nil
}
