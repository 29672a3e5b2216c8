// Command bench compares Windlass with controller-runtime, and with the limit of an API server. It writes
// docs/benchmarks.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"windlass.dev/windlass/test/bench/peer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	do := bench
	args := os.Args[1:]
	for name, other := range map[string]func(context.Context, []string) error{"peer": runPeer, "floor": runFloor} {
		if len(args) > 0 && args[0] == name {
			do, args = other, args[1:]
			break
		}
	}
	if err := do(ctx, args); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// runPeer runs a peer in this process.
func runPeer(ctx context.Context, args []string) error {
	var o peer.Options
	flags := flag.NewFlagSet("bench peer", flag.ContinueOnError)
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file")
	flags.StringVar(&o.PprofAddress, "pprof", "", "address for profiles")
	flags.BoolVar(&o.Careful, "careful", false, "set the options that a careful user sets: caches and workers")
	flags.IntVar(&o.Workers, "workers", 1, "number of objects that are reconciled at a time, with -careful")
	flags.BoolVar(&o.Verbose, "verbose", false, "log each reconcile")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return peer.Run(ctx, o)
}
