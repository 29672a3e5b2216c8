// Command controller is the operator. It runs in a cluster, or out of it with a
// kubeconfig.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	_ "golang.org/x/crypto/x509roots/fallback" // the image has no certificates: these count where the system has none
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
)

// Exit codes: of a run that failed, and of a call that makes no sense.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	opts, err := parse(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "controller: %v\n", err)
		os.Exit(exitUsage)
	}
	if opts.version {
		v := version.Get()
		fmt.Printf("Windlass controller %s, commit %s, %s, %s\n", v.GitVersion, v.GitCommit, v.GoVersion, v.Platform)
		return
	}
	logs.InitLogs()
	if err := logsapi.ValidateAndApply(opts.logging, nil); err != nil {
		fmt.Fprintf(os.Stderr, "controller: %v\n", err)
		os.Exit(exitUsage)
	}
	ctx := klog.NewContext(signalled(), klog.Background())
	if err := run(ctx, opts); err != nil {
		klog.FromContext(ctx).Error(err, "Stopped")
		logs.FlushLogs()
		os.Exit(exitFailed)
	}
	logs.FlushLogs()
}

// signalled returns a context that ends with the first SIGTERM or SIGINT. The
// second one ends the process at once.
func signalled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitFailed)
	}()
	return ctx
}
