package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"windlass.dev/windlass/cmd/kubectl-windlass/inspect"
	"windlass.dev/windlass/cmd/kubectl-windlass/report"
)

// completer is the name under which kubectl runs the program to complete a command line of the plugin:
// see SetupPluginCompletion in k8s.io/kubectl/pkg/cmd/plugin.
const completer = "kubectl_complete-windlass"

// arguments returns the arguments of the command. argv begins with the path of the program. If the program is
// completer, the first argument is the request of cobra for completions.
func arguments(argv []string) []string {
	if strings.TrimSuffix(filepath.Base(argv[0]), ".exe") == completer {
		return slices.Concat([]string{cobra.ShellCompRequestCmd}, argv[1:])
	}
	return argv[1:]
}

// completionTimeout limits the time of a request for a completion, unless the user sets --request-timeout.
const completionTimeout = "5s"

// maxCompletions limits the number of names in a completion.
const maxCompletions = 500

// completeObjects completes arguments of the form KIND/NAME. It returns no completions if the API server returns an
// error.
func (i inspector) completeObjects(c *cobra.Command, _ []string, written string) ([]string, cobra.ShellCompDirective) {
	kind, _, named := strings.Cut(written, "/")
	if !named {
		var kinds []string
		for _, resource := range inspect.Kinds {
			kinds = append(kinds, strings.TrimSuffix(resource.Resource, "s")+"/")
		}
		return beginning(kinds, written), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
	if flag := c.Flag("request-timeout"); flag != nil && !flag.Changed {
		*i.config.Timeout = completionTimeout
	}
	names, err := i.namesOf(c.Context(), kind)
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
		return nil, cobra.ShellCompDirectiveError
	}
	return beginning(names, written), cobra.ShellCompDirectiveNoFileComp
}

// namesOf returns the objects of a kind in the form KIND/NAME, at most maxCompletions.
func (i inspector) namesOf(ctx context.Context, kind string) (names []string, err error) {
	mapper, err := i.config.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	of, err := mapper.KindFor(schema.ParseGroupResource(kind).WithVersion(""))
	if err != nil || !inspect.IsOwn(of) {
		return nil, err
	}
	mapping, err := mapper.RESTMapping(of.GroupKind(), of.Version)
	if err != nil {
		return nil, err
	}
	namespace, _, err := i.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = metav1.NamespaceNone
	}
	config, err := i.config.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	found, err := client.Resource(mapping.Resource).Namespace(namespace).List(ctx, metav1.ListOptions{
		Limit: maxCompletions,
	})
	if err != nil {
		return nil, err
	}
	for n := range found.Items {
		names = append(names, report.Printable(kind+"/"+found.Items[n].Name))
	}
	return names, nil
}

// beginning returns the texts that begin with written, which is the text before the cursor.
func beginning(texts []string, written string) []string {
	return slices.DeleteFunc(texts, func(text string) bool { return !strings.HasPrefix(text, written) })
}

// completeOutput completes the flag --output.
func completeOutput(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp
}
