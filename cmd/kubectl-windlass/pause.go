package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"

	"windlass.dev/windlass/cmd/kubectl-windlass/report"
	"windlass.dev/windlass/pkg/controller"
)

func newPause(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	return pausing(config, streams, "pause", "paused", "Stop the operator from changing objects",
		"The command sets the annotation "+controller.PausedAnnotation+".", "true")
}

func newResume(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	return pausing(config, streams, "resume", "resumed", "Let the operator change paused objects again",
		"The command removes the annotation "+controller.PausedAnnotation+".", nil)
}

// pausing returns a command that sets the annotation that pauses objects. If value is nil, the command removes the
// annotation.
func pausing(
	config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams, use, done, short, long string, value any,
) *cobra.Command {
	i := inspector{streams, config}
	return &cobra.Command{
		Use:               use + " KIND/NAME ...",
		Short:             short,
		Long:              short + ". " + long,
		Example:           "  kubectl windlass " + use + " database/shop",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: i.completeObjects,
		RunE:              func(_ *cobra.Command, args []string) error { return i.annotate(args, done, value) },
	}
}

func (i inspector) annotate(args []string, done string, value any) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{controller.PausedAnnotation: value}},
	})
	if err != nil {
		return err
	}
	found, err := i.named(args)
	if err != nil {
		return err
	}
	for _, info := range found {
		if _, err := resource.NewHelper(info.Client, info.Mapping).WithFieldManager("kubectl-windlass").
			Patch(info.Namespace, info.Name, types.MergePatchType, patch, &metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("annotating %s %s: %w", info.Mapping.GroupVersionKind.Kind, info.ObjectName(), err)
		}
		kind := info.Mapping.GroupVersionKind
		report.Lines(i.Out, fmt.Sprintf("%s.%s/%s %s", strings.ToLower(kind.Kind), kind.Group, info.Name, done))
	}
	return nil
}
