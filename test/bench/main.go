// Command bench compares Windlass with controller-runtime, and with what an API server can
// take: see docs/benchmarks.md, which it writes.
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

// runPeer is a peer, as a process of its own.
func runPeer(ctx context.Context, args []string) error {
	var o peer.Options
	flags := flag.NewFlagSet("bench peer", flag.ContinueOnError)
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file")
	flags.StringVar(&o.PprofAddress, "pprof", "", "address for profiles")
	flags.BoolVar(&o.Careful, "careful", false, "configure caches and workers as a careful user would")
	flags.IntVar(&o.Workers, "workers", 1, "objects that are worked on at once, if careful")
	flags.BoolVar(&o.Verbose, "verbose", false, "log each pass")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return peer.Run(ctx, o)
}
