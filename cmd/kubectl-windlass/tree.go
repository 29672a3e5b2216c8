package main

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"windlass.dev/windlass/cmd/kubectl-windlass/inspect"
	"windlass.dev/windlass/cmd/kubectl-windlass/report"
)

func newTree(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	i, follow := inspector{streams, config}, false
	command := &cobra.Command{
		Use:               "tree KIND/NAME ...",
		Short:             "Show what an object owns, down to the Pods",
		Example:           "  kubectl windlass tree platform/web-shop",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: i.completeObjects,
		RunE: func(c *cobra.Command, args []string) error {
			if follow {
				return i.follow(c.Context(), args)
			}
			_, err := i.tree(c.Context(), args, nil)
			return err
		},
	}
	command.Flags().BoolVarP(&follow, "watch", "w", false, "Print the tree again whenever it changes, until the "+
		"command is interrupted.")
	return command
}

// followInterval is how often the objects of a tree are read.
const followInterval = 2 * time.Second

// follow prints the tree whenever it changes, until ctx ends.
func (i inspector) follow(ctx context.Context, args []string) error {
	var last []inspect.Row
	for {
		rows, err := i.tree(ctx, args, last)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		last = rows
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followInterval):
		}
	}
}

// tree prints the tree of each object and returns its rows. It prints nothing if the rows differ from last only in
// ages.
func (i inspector) tree(ctx context.Context, args []string, last []inspect.Row) ([]inspect.Row, error) {
	roots, err := i.objects(args)
	if err != nil {
		return nil, err
	}
	r, err := i.reader()
	if err != nil {
		return nil, err
	}
	var rows []inspect.Row
	denied := sets.New[string]()
	for _, root := range roots {
		all, err := r.Namespace(ctx, namespaceOf(root))
		if err != nil {
			return nil, err
		}
		denied = denied.Union(all.Denied)
		rows = append(rows, inspect.Tree(root, all, time.Now())...)
	}
	if sameButAge(rows, last) {
		return rows, nil
	}
	var text bytes.Buffer
	if last != nil {
		text.WriteString("\n")
	}
	table := [][]string{{"NAME", "PHASE", "REASON", "AGE"}}
	for _, row := range rows {
		table = append(table, []string{row.Name, row.Phase, row.Reason, row.Age})
	}
	if err := report.Table(&text, table); err != nil {
		return nil, err
	}
	if _, err := i.Out.Write(text.Bytes()); err != nil {
		return nil, err
	}
	noteDenied(i.ErrOut, denied)
	return rows, nil
}

func sameButAge(a, b []inspect.Row) bool {
	return slices.EqualFunc(a, b, func(x, y inspect.Row) bool {
		x.Age, y.Age = "", ""
		return x == y
	})
}
