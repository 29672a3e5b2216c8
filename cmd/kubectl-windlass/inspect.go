package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"windlass.dev/windlass/cmd/kubectl-windlass/inspect"
	"windlass.dev/windlass/cmd/kubectl-windlass/report"
)

// inspector has what the commands that read objects share.
type inspector struct {
	genericiooptions.IOStreams
	config *genericclioptions.ConfigFlags
}

func (i inspector) reader() (r inspect.Reader, err error) {
	config, err := i.config.ToRESTConfig()
	if err != nil {
		return r, err
	}
	if r.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return r, err
	}
	r.Metadata, err = metadata.NewForConfig(config)
	return r, err
}

// named returns the objects of Windlass that args name, and the objects in the namespace of each.
func (i inspector) named(args []string) ([]*unstructured.Unstructured, error) {
	namespace, _, err := i.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	found, err := resource.NewBuilder(i.config).Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(true, args...).Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	all := make([]*unstructured.Unstructured, 0, len(found))
	for _, info := range found {
		obj, ok := info.Object.(*unstructured.Unstructured)
		if !ok || !inspect.IsOwn(info.Mapping.GroupVersionKind) {
			return nil, fmt.Errorf("%s %s is not an object of Windlass; name an App, At, Database, ExternalDatabase or Platform", info.Mapping.GroupVersionKind.Kind, info.ObjectName())
		}
		all = append(all, obj)
	}
	return all, nil
}

// namespaceOf returns the namespace of what an object owns.
func namespaceOf(obj *unstructured.Unstructured) string {
	if obj.GetKind() == "Platform" {
		namespace, _, _ := unstructured.NestedString(obj.Object, "spec", "namespace")
		return namespace
	}
	return obj.GetNamespace()
}

func newTree(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	i := inspector{streams, config}
	return &cobra.Command{
		Use:     "tree KIND/NAME ...",
		Short:   "Show what an object owns, down to the Pods",
		Example: "  kubectl windlass tree platform/web-shop",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return i.tree(c.Context(), args) },
	}
}

func (i inspector) tree(ctx context.Context, args []string) error {
	roots, err := i.named(args)
	if err != nil {
		return err
	}
	r, err := i.reader()
	if err != nil {
		return err
	}
	w := printers.GetNewTabWriter(i.Out)
	_, _ = fmt.Fprintln(w, "NAME\tPHASE\tREASON\tAGE")
	denied := map[string]bool{}
	for _, root := range roots {
		all, err := r.Namespace(ctx, namespaceOf(root))
		if err != nil {
			return err
		}
		for _, name := range all.Denied {
			denied[name] = true
		}
		for _, row := range inspect.Tree(root, all, time.Now()) {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", row.Name, row.Phase, row.Reason, row.Age)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	noteDenied(i.ErrOut, denied)
	return nil
}

// noteDenied says which objects the output lacks.
func noteDenied(w io.Writer, denied map[string]bool) {
	names := make([]string, 0, len(denied))
	for name := range denied {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) > 0 {
		_, _ = fmt.Fprintf(w, "You may not list %s: these objects are missing above.\n", strings.Join(names, ", "))
	}
}

func newWhy(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	i := inspector{streams, config}
	return &cobra.Command{
		Use:     "why KIND/NAME ...",
		Short:   "Explain why an object is not Ready, and what to do",
		Example: "  kubectl windlass why app/storefront",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return i.why(c.Context(), args) },
	}
}

func (i inspector) why(ctx context.Context, args []string) error {
	objects, err := i.named(args)
	if err != nil {
		return err
	}
	r, err := i.reader()
	if err != nil {
		return err
	}
	for _, obj := range objects {
		all, err := r.Namespace(ctx, namespaceOf(obj))
		if err != nil {
			return err
		}
		e := inspect.Why(obj, all)
		lines := e.Lines(inspect.Name(obj), time.Now())
		if e.Pod != "" {
			lines = append(lines, i.log(ctx, namespaceOf(obj), e.Pod)...)
		}
		for _, line := range lines {
			_, _ = fmt.Fprintln(i.Out, report.Printable(line))
		}
	}
	return nil
}

// The part of a log that why shows.
const (
	logLines = 5
	logBytes = 4 << 10
)

// log returns the last lines of the containers of a Pod that crashed.
func (i inspector) log(ctx context.Context, namespace, name string) (lines []string) {
	config, err := i.config.ToRESTConfig()
	if err != nil {
		return nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil
	}
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		crashed := status.State.Terminated != nil && status.State.Terminated.ExitCode != 0
		before := status.LastTerminationState.Terminated != nil
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
	all, denied, err := r.Own(ctx, namespace)
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b inspect.State) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	if len(all) == 0 {
		_, _ = fmt.Fprintln(i.ErrOut, "No objects of Windlass were found.")
	} else {
		w := printers.GetNewTabWriter(i.Out)
		_, _ = fmt.Fprintln(w, "NAMESPACE\tNAME\tREADY\tPHASE\tREASON\tAGE")
		for _, s := range all {
			_, _ = fmt.Fprintf(w, "%s\t%s/%s\t%s\t%s\t%s\t%s\n", s.Namespace, strings.ToLower(s.Kind), s.Name, s.Ready, s.Phase, s.Reason, duration.HumanDuration(time.Since(s.Created)))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	noteDenied(i.ErrOut, denied)
	return nil
}

// rank orders objects: failed objects first, then objects that are not Ready, then Ready objects.
func rank(s inspect.State) int {
	switch {
	case s.Degraded:
		return 0
	case s.Ready != "True":
		return 1
	}
	return 2
}
