// Command kubectl-windlass is a kubectl plugin: it shows what the operator would do, what objects own, and why they are
// not Ready.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/cmd/kubectl-windlass/report"
)

// Exit codes, with the meanings of the exit codes of kubectl diff.
const (
	exitDifferences = 1
	exitError       = 2
)

func main() {
	klog.SetLogger(logr.Discard()) // users read errors, not logs
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, arguments(os.Args), genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	stop()
	os.Exit(code)
}

// errDifferences is the error of a plan that changes something. It has no message.
var errDifferences = errors.New("")

// run runs a command, and returns its exit code.
func run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	root := newCommand(streams)
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errDifferences):
		return exitDifferences
	}
	report.Lines(streams.ErrOut, "error: "+strings.Join(strings.Fields(err.Error()), " "))
	return exitError
}

func newCommand(streams genericiooptions.IOStreams) *cobra.Command {
	config := genericclioptions.NewConfigFlags(true)
	root := &cobra.Command{
		Use:           "kubectl-windlass",
		Short:         "See what the Windlass operator will do, and why objects are not Ready",
		Version:       version.Get().GitVersion,
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl windlass"},
	}
	config.AddFlags(root.PersistentFlags())
	for _, add := range []func(*genericclioptions.ConfigFlags, genericiooptions.IOStreams) *cobra.Command{
		newPlan, newTree, newWhy, newStatus, newPause, newResume, newRollback,
	} {
		root.AddCommand(add(config, streams))
	}
	return root
}

// isTerminal reports whether a stream is a terminal that shows colors: see https://no-color.org.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
