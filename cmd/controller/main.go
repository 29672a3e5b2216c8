// Command controller runs the operator, in a cluster or out of cluster with a kubeconfig.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/controller/process"
)

// Exit codes of a run that failed, and of invalid flags.
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
	ctx := klog.NewContext(process.Signaled(), klog.Background())
	if err := run(ctx, opts); err != nil {
		klog.FromContext(ctx).Error(err, "Stopped")
		logs.FlushLogs()
		os.Exit(exitFailed)
	}
	logs.FlushLogs()
}
