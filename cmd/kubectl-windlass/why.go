package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"windlass.dev/windlass/cmd/kubectl-windlass/inspect"
	"windlass.dev/windlass/cmd/kubectl-windlass/report"
)

func newWhy(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	i := inspector{streams, config}
	return &cobra.Command{
		Use:               "why KIND/NAME ...",
		Short:             "Explain why an object is not Ready, and what to do",
		Example:           "  kubectl windlass why app/storefront",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: i.completeObjects,
		RunE:              func(c *cobra.Command, args []string) error { return i.why(c.Context(), args) },
	}
}

func (i inspector) why(ctx context.Context, args []string) error {
	objects, err := i.objects(args)
	if err != nil {
		return err
	}
	r, err := i.reader()
	if err != nil {
		return err
	}
	denied := sets.New[string]()
	for _, obj := range objects {
		all, err := r.Namespace(ctx, namespaceOf(obj))
		if err != nil {
			return err
		}
		if err := r.ReadWarnings(ctx, namespaceOf(obj), all); err != nil {
			return err
		}
		denied = denied.Union(all.Denied)
		e := inspect.Why(obj, all)
		lines := e.Lines(inspect.Name(obj), time.Now())
		if e.Pod != "" {
			lines = append(lines, i.log(ctx, namespaceOf(obj), e.Pod)...)
		}
		report.Lines(i.Out, lines...)
	}
	noteDenied(i.ErrOut, denied)
	return nil
}

// logLines and logBytes limit the part of the log of a container that why shows.
const (
	logLines = 5
	logBytes = 4 << 10
)

// log returns the last log lines of each crashed container of a Pod.
func (i inspector) log(ctx context.Context, namespace, name string) (lines []string) {
	client, err := i.client()
	if err != nil {
		return nil
	}
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		crashed := status.State.Terminated != nil && status.State.Terminated.ExitCode != 0
		before := status.LastTerminationState.Terminated != nil && status.LastTerminationState.Terminated.ExitCode != 0
		if !crashed && !before {
			continue
		}
		tail, limit := int64(logLines), int64(logBytes)
		text, err := client.CoreV1().Pods(namespace).GetLogs(name, &corev1.PodLogOptions{
			Container: status.Name, Previous: !crashed, TailLines: &tail, LimitBytes: &limit,
		}).DoRaw(ctx)
		if err != nil || len(text) == 0 {
			continue
		}
		lines = append(lines, fmt.Sprintf("The last lines of container %s of Pod %s:", status.Name, name))
		for line := range strings.Lines(string(text)) {
			lines = append(lines, "    "+strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}
