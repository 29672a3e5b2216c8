package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/yaml"

	"windlass.dev/windlass/cmd/controller/operator"
	"windlass.dev/windlass/cmd/kubectl-windlass/planner"
	"windlass.dev/windlass/cmd/kubectl-windlass/report"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/plan"
)

const planExample = `  # What would happen if you applied a file?
  kubectl windlass plan -f shop.yaml

  # What would the operator do for an object as it is?
  kubectl windlass plan app/storefront

  # What would happen if you deleted it?
  kubectl windlass plan --delete app/storefront

  # What would this version of the operator change in the whole cluster?
  kubectl windlass plan --all -A`

const planLong = `Show the writes of the operator in order, each with its consequence.
Writes of the status are not shown.

The plan runs the operator's own code. The API server checks each write with dryRun=All and stores nothing. Writes that
it cannot check are marked. The cluster needs the CustomResourceDefinitions of Windlass, but no running operator. The
plan connects to no PostgreSQL server without --connect.

The exit code is 0 if nothing would change, 1 if something would change, and greater than 1 after an error.`

// planOptions are the flags of plan.
type planOptions struct {
	resource.FilenameOptions
	genericiooptions.IOStreams

	config        *genericclioptions.ConfigFlags
	selector      string
	all           bool
	allNamespaces bool
	deletes       bool
	output        string
	kinds         operator.Options
	operator      operatorFlags
	connect       bool
}

func newPlan(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &planOptions{IOStreams: streams, config: config}
	command := &cobra.Command{
		Use:               "plan (-f FILE | KIND/NAME ... | --all)",
		Short:             "Show what the operator would do",
		Long:              planLong,
		Example:           planExample,
		RunE:              func(c *cobra.Command, args []string) error { return o.run(c.Context(), c.Flags(), args) },
		ValidArgsFunction: inspector{streams, config}.completeObjects,
	}
	flags := command.Flags()
	flags.StringSliceVarP(&o.Filenames, "filename", "f", nil, "Files, directories or URLs with the objects to apply. "+
		"- is the standard input.")
	flags.BoolVarP(&o.Recursive, "recursive", "R", false, "Also read the directories in the directories of -f.")
	flags.StringVarP(&o.Kustomize, "kustomize", "k", "", "Directory with a kustomization. It cannot be used "+
		"together with -f.")
	flags.StringVarP(&o.selector, "selector", "l", "", "Plan only the objects with these labels.")
	flags.BoolVar(&o.all, "all", false, "Plan all objects of Windlass in the namespace, or with -A in all "+
		"namespaces, as they are.")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "With --all, plan the objects of all namespaces.")
	flags.BoolVar(&o.deletes, "delete", false, "Plan the deletion of the objects.")
	flags.StringVarP(&o.output, "output", "o", "", "Output format: json or yaml. Empty means text.")
	flags.BoolVar(&o.connect, "connect", false, "Log in to the PostgreSQL servers of ExternalDatabases, and show the "+
		"SQL statements. Without this flag, the plan connects to no PostgreSQL server.")
	o.operator.add(flags)
	_ = command.RegisterFlagCompletionFunc("output", completeOutput) // the flag exists
	return command
}

func (o *planOptions) validate(args []string) error {
	given := 0
	for _, is := range []bool{len(o.Filenames) > 0 || o.Kustomize != "", len(args) > 0, o.all} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return fmt.Errorf("specify the objects to plan: -f FILE, KIND/NAME, or --all")
	case !slices.Contains([]string{"", "json", "yaml"}, o.output):
		return fmt.Errorf("--output must be json or yaml, not %q", o.output)
	case len(o.Filenames) > 0 && o.Kustomize != "":
		return fmt.Errorf("-f and -k cannot be used together")
	case o.all && o.deletes:
		return fmt.Errorf("--delete needs -f FILE or KIND/NAME")
	case o.allNamespaces && !o.all:
		return fmt.Errorf("--all-namespaces needs --all")
	}
	return o.operator.ApplyTo(&o.kinds) // before the first request, so that an invalid flag fails at once
}

func (o *planOptions) run(ctx context.Context, flags *pflag.FlagSet, args []string) error {
	if err := o.validate(args); err != nil {
		return err
	}
	found, err := o.objects(args)
	if err != nil {
		return err
	}
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return err
	}
	installed, err := o.operator.readFromCluster(ctx, config, flags)
	if err != nil {
		return err
	}
	if err := o.operator.ApplyTo(&o.kinds); err != nil {
		return err
	}
	o.kinds.ExternalDatabases.Offline = !o.connect
	scope, err := o.scope(found)
	if err != nil {
		return err
	}
	if o.kinds.Namespace, err = installed.limit(scope); err != nil {
		return err
	}
	o.kinds.OwnNamespaces = installed.own
	p, err := planner.New(ctx, config, o.kinds)
	if err != nil {
		return err
	}
	if err := o.plan(ctx, p, found); err != nil {
		return err
	}
	result, err := report.New(p.Server.Writes())
	if err != nil {
		return err
	}
	result.Waiting = waiting(p)
	for _, f := range p.Failed() {
		result.Fail(f.Kind, f.Namespace, f.Name, f.Err)
	}
	result.Notes = notesOf(p, !o.connect)
	if installed.note != "" {
		result.Notes = append(result.Notes, installed.note)
	}
	return o.print(result)
}

// plan plans the objects that the user names, and the reconciles that follow.
func (o *planOptions) plan(ctx context.Context, p *planner.Planner, found []*resource.Info) error {
	for _, info := range found {
		if err := o.planOne(ctx, p, info); err != nil && !p.IsLastRejection(err) {
			if info.Mapping.GroupVersionKind.Kind == "Secret" {
				err = errors.New(report.RejectionOfSecret(err))
			}
			return fmt.Errorf("%s %s: %w", info.Mapping.GroupVersionKind.Kind, info.ObjectName(), err)
		}
	}
	return p.Settle(ctx)
}

func (o *planOptions) planOne(ctx context.Context, p *planner.Planner, info *resource.Info) (err error) {
	defer func() {
		// the library for patches panics on some values of the annotation last-applied
		if reason := recover(); reason != nil {
			err = fmt.Errorf("comparing the manifest with the live object: %v", reason)
		}
	}()
	if o.deletes {
		return p.Delete(ctx, info.Mapping, info.Namespace, info.Name)
	}
	if len(o.Filenames) > 0 || o.Kustomize != "" {
		obj, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("unexpected type %T", info.Object)
		}
		if err := o.convert(info, obj); err != nil {
			return err
		}
		if err := p.Apply(ctx, info.Mapping, obj); err != nil {
			return err
		}
	}
	p.Add(info.Mapping.GroupVersionKind.GroupKind(), controller.Key{Namespace: info.Namespace, Name: info.Name})
	return nil
}

// notesOf returns sentences about what the plan does not know. offline is true if the plan connects to no PostgreSQL
// server.
func notesOf(p *planner.Planner, offline bool) (notes []string) {
	for _, denied := range p.Server.Denied() {
		notes = append(notes, fmt.Sprintf(
			"You may not %s. The API server has not checked these writes, so the plan lacks their defaults.", denied))
	}
	slices.Sort(notes)
	isExternal := func(of plan.Object) bool { return of.Kind == "ExternalDatabase" }
	if offline && slices.ContainsFunc(p.Reconciled(), isExternal) {
		notes = append(notes, "The plan has connected to no PostgreSQL server. It shows no SQL for ExternalDatabases, and "+
			"assumes that their servers accept the requests of the operator. To connect to these servers, add --connect.")
	}
	return notes
}

func (o *planOptions) print(p report.Plan) error {
	var text []byte
	var err error
	switch o.output {
	case "json":
		text, err = p.JSON()
	case "yaml":
		text, err = yaml.Marshal(p)
	default:
		text = []byte(p.Text(isTerminal(o.Out)))
	}
	if err != nil {
		return err
	}
	if _, err := o.Out.Write(text); err != nil {
		return err
	}
	switch {
	case p.Summary.Rejected+p.Summary.Failed > 0:
		return fmt.Errorf("the API server rejects %d writes, and %d objects cannot be planned", p.Summary.Rejected,
			p.Summary.Failed)
	case !p.Summary.IsEmpty():
		return errDifferences
	}
	return nil
}

// waiting returns the objects of Windlass that are not Ready after the plan.
func waiting(p *planner.Planner) (all []report.Problem) {
	for _, of := range p.Reconciled() {
		obj, found := p.Object(of)
		if !found {
			continue
		}
		if w, ok := report.WaitingOf(of.Kind, obj); ok {
			all = append(all, w)
		}
	}
	return all
}
