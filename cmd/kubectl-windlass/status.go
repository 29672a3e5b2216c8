package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"windlass.dev/windlass/cmd/kubectl-windlass/report"
)

func newStatus(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	i, everywhere := inspector{streams, config}, false
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the objects of all kinds, those that are not Ready first",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return i.status(c.Context(), everywhere) },
	}
	command.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "Show the objects of all namespaces.")
	return command
}

func (i inspector) status(ctx context.Context, everywhere bool) error {
	namespace, _, err := i.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return err
	}
	if everywhere {
		namespace = ""
	}
	r, err := i.reader()
	if err != nil {
		return err
	}
	found, err := r.Own(ctx, namespace)
	if err != nil {
		return err
	}
	all := found.States()
	if len(all) == 0 {
		report.Lines(i.ErrOut, "No objects of Windlass were found.")
	} else {
		rows := [][]string{{"NAMESPACE", "NAME", "READY", "PHASE", "REASON", "AGE"}}
		for _, s := range all {
			rows = append(rows, []string{
				s.GetNamespace(), strings.ToLower(s.GetKind()) + "/" + s.GetName(), string(s.Ready), s.Phase, s.Reason,
				duration.HumanDuration(time.Since(s.GetCreationTimestamp().Time)),
			})
		}
		if err := report.Table(i.Out, rows); err != nil {
			return err
		}
	}
	noteDenied(i.ErrOut, found.Denied)
	return nil
}
