package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/yaml"

	"windlass.dev/windlass/cmd/controller/operator"
	"windlass.dev/windlass/cmd/kubectl-windlass/inspect"
	"windlass.dev/windlass/cmd/kubectl-windlass/planner"
	"windlass.dev/windlass/cmd/kubectl-windlass/report"
	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/kinds/at"
	"windlass.dev/windlass/pkg/kinds/database"
	"windlass.dev/windlass/pkg/webhook/conversion"
)

const planExample = `  # What would happen if you applied a file?
  kubectl windlass plan -f shop.yaml

  # What would the operator do for an object as it is?
  kubectl windlass plan app/storefront

  # What would happen if you deleted it?
  kubectl windlass plan --delete app/storefront

  # What would this version of the operator change in the whole cluster?
  kubectl windlass plan --all -A`

const planLong = `Show what the operator would do: every write, in order, with its consequence.

The plan runs the operator's own code. Every write is checked by the API server with dryRun=All, and nothing is changed.
The cluster needs the CustomResourceDefinitions of Windlass, but no operator.

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
}

func newPlan(config *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &planOptions{IOStreams: streams, config: config}
	command := &cobra.Command{
		Use:     "plan (-f FILE | KIND/NAME ... | --all)",
		Short:   "Show what the operator would do",
		Long:    planLong,
		Example: planExample,
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	flags := command.Flags()
	flags.StringSliceVarP(&o.Filenames, "filename", "f", nil, "Files, directories or URLs with the objects to apply. - is the standard input.")
	flags.BoolVarP(&o.Recursive, "recursive", "R", false, "Also read the directories in the directories of -f.")
	flags.StringVarP(&o.Kustomize, "kustomize", "k", "", "Directory with a kustomization. It cannot be used together with -f.")
	flags.StringVarP(&o.selector, "selector", "l", "", "Plan only the objects with these labels.")
	flags.BoolVar(&o.all, "all", false, "Plan all objects of Windlass as they are. After a change of the operator's version, nothing should change.")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Plan the objects of all namespaces.")
	flags.BoolVar(&o.deletes, "delete", false, "Plan the deletion of the objects.")
	flags.StringVarP(&o.output, "output", "o", "", "Output format: json or yaml. Empty means text.")
	flags.StringVar(&o.kinds.AtImage, "at-image", at.DefaultImage, "The flag --at-image of the operator.")
	flags.StringVar(&o.kinds.PostgreSQLImage, "postgresql-image", database.DefaultImage, "The flag --postgresql-image of the operator.")
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
		return fmt.Errorf("name what to plan: -f FILE, KIND/NAME, or --all")
	case !slices.Contains([]string{"", "json", "yaml"}, o.output):
		return fmt.Errorf("--output must be json or yaml, not %q", o.output)
	case len(o.Filenames) > 0 && o.Kustomize != "":
		return fmt.Errorf("-f and -k cannot be used together")
	case o.all && o.deletes:
		return fmt.Errorf("--delete needs -f FILE or KIND/NAME")
	}
	return nil
}

func (o *planOptions) run(ctx context.Context, args []string) error {
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
	if o.kinds.Namespace, err = o.scope(found); err != nil {
		return err
	}
	p, err := planner.New(ctx, config, o.kinds)
	if err != nil {
		return err
	}
	if err := o.plan(ctx, p, found); err != nil {
		return err
	}
	result, err := report.New(p.Writes(), p.Statements())
	if err != nil {
		return err
	}
	if result.Waiting, err = waiting(ctx, p); err != nil {
		return err
	}
	failed, errs := p.Failed()
	for i, of := range failed {
		result.Fail(of.Kind, of.Namespace, of.Name, errs[i])
	}
	result.Notes = notesOf(p)
	return o.print(result)
}

// objects returns the objects that the user names.
func (o *planOptions) objects(args []string) ([]*resource.Info, error) {
	namespace, enforce, err := o.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	b := resource.NewBuilder(o.config).Unstructured().NamespaceParam(namespace).DefaultNamespace().AllNamespaces(o.allNamespaces).Flatten()
	switch {
	case o.all:
		b = b.ResourceTypes(allKinds...).SelectAllParam(o.selector == "").LabelSelectorParam(o.selector).ContinueOnError()
	case len(args) > 0:
		b = b.ResourceTypeOrNameArgs(true, args...).LabelSelectorParam(o.selector).RequireObject(true)
	default:
		b = b.FilenameParam(enforce, &o.FilenameOptions).LabelSelectorParam(o.selector)
	}
	found, err := b.Do().Infos()
	if err != nil || len(args) == 0 {
		return found, err
	}
	for _, info := range found {
		if !inspect.IsOwn(info.Mapping.GroupVersionKind) {
			return nil, notOwn(info)
		}
	}
	return found, nil
}

// allKinds are the kinds of Windlass.
var allKinds = []string{
	"platforms.windlass.dev", "externaldatabases.windlass.dev", "databases.windlass.dev", "apps.windlass.dev",
	"ats.cnat.programming-kubernetes.info",
}

// scope returns the namespace of all objects, or "" if they are in several namespaces or in none.
func (o *planOptions) scope(found []*resource.Info) (string, error) {
	if o.allNamespaces {
		return "", nil
	}
	namespace := ""
	for i, info := range found {
		if !info.Namespaced() || i > 0 && info.Namespace != namespace {
			return "", nil
		}
		namespace = info.Namespace
	}
	if namespace == "" {
		namespace, _, err := o.config.ToRawKubeConfigLoader().Namespace()
		return namespace, err
	}
	return namespace, nil
}

// plan plans what the user asks for.
func (o *planOptions) plan(ctx context.Context, p *planner.Planner, found []*resource.Info) error {
	for _, info := range found {
		if err := o.planOne(ctx, p, info); err != nil && !p.HasRefused(err) {
			return fmt.Errorf("%s %s: %w", info.Mapping.GroupVersionKind.Kind, info.ObjectName(), err)
		}
	}
	return p.Settle(ctx)
}

func (o *planOptions) planOne(ctx context.Context, p *planner.Planner, info *resource.Info) error {
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
	p.Reconcile(info.Mapping.GroupVersionKind.GroupKind(), controller.Key{Namespace: info.Namespace, Name: info.Name})
	return nil
}

// convert converts an At to the version that the operator reads, as the webhook of the operator does.
func (o *planOptions) convert(info *resource.Info, obj *unstructured.Unstructured) error {
	if info.Mapping.GroupVersionKind.Group != cnatv1.SchemeGroupVersion.Group || info.Mapping.GroupVersionKind.Version == cnatv1.SchemeGroupVersion.Version {
		return nil
	}
	text, err := obj.MarshalJSON()
	if err != nil {
		return err
	}
	if text, err = conversion.Convert(text, cnatv1.SchemeGroupVersion.String()); err != nil {
		return err
	}
	if err := obj.UnmarshalJSON(text); err != nil {
		return err
	}
	mapper, err := o.config.ToRESTMapper()
	if err != nil {
		return err
	}
	info.Mapping, err = mapper.RESTMapping(info.Mapping.GroupVersionKind.GroupKind(), cnatv1.SchemeGroupVersion.Version)
	return err
}

func notesOf(p *planner.Planner) (notes []string) {
	for _, right := range p.Denied() {
		notes = append(notes, fmt.Sprintf("You may not %s. The API server has not checked these writes, so that their defaults are missing.", right))
	}
	slices.Sort(notes)
	return notes
}

func (o *planOptions) print(p report.Plan) error {
	var text []byte
	var err error
	switch o.output {
	case "json":
		if text, err = json.MarshalIndent(p, "", "  "); err == nil {
			text = append(text, '\n')
		}
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
	case p.Summary.Errors > 0:
		return fmt.Errorf("%d of these steps fail", p.Summary.Errors)
	case !p.Summary.IsEmpty():
		return errDifferences
	}
	return nil
}

// waiting returns the objects of Windlass that are not Ready after the plan.
func waiting(ctx context.Context, p *planner.Planner) ([]report.Waiting, error) {
	var all []report.Waiting
	for _, of := range p.Reconciled() {
		obj, err := p.State(ctx, of)
		if err != nil {
			return nil, err
		}
		if w, ok := report.WaitingOf(obj); ok {
			all = append(all, w)
		}
	}
	return all, nil
}
