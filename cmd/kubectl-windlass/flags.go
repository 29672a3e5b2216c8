package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"

	"windlass.dev/windlass/cmd/controller/operator"
	"windlass.dev/windlass/cmd/kubectl-windlass/inspect"
)

// operatorFlags are flags whose default values are the values of the operator's flags in a cluster.
type operatorFlags struct {
	operator.Flags
	// namespace is the namespace of the operator's Deployment. Only this namespace is searched, because a Deployment of a
	// tenant could have the labels of the operator.
	namespace string
}

func (o *operatorFlags) add(flags *pflag.FlagSet) {
	planned := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(planned)
	planned.VisitAll(func(f *pflag.Flag) {
		f.Usage += " Without this flag, the plan uses the value that is set for the operator in --operator-namespace. " +
			"If the plan finds no operator there, it uses the default value."
	})
	flags.AddFlagSet(planned)
	flags.StringVar(&o.namespace, "operator-namespace", "windlass-system",
		"Namespace of the operator's Deployment, from which the plan takes the flags of the operator. Empty means "+
			"the default values.")
}

// readFromCluster sets the flags that the user has not set to the values of the operator, and returns the other flags
// that a plan needs. If the namespace has no operator, the flags keep their default values.
func (o *operatorFlags) readFromCluster(
	ctx context.Context, config *rest.Config, flags *pflag.FlagSet,
) (installed installation, err error) {
	if o.namespace == "" {
		return installed, nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return installed, err
	}
	found, err := client.AppsV1().Deployments(o.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: inspect.OperatorLabels,
	})
	switch {
	case apierrors.IsForbidden(err):
		installed.note = fmt.Sprintf("You may not list Deployments in namespace %s. For each flag of the operator that you "+
			"have not set, the plan uses the default value.", o.namespace)
		return installed, nil
	case err != nil:
		return installed, fmt.Errorf("reading the flags of the operator: %w", err)
	case len(found.Items) == 0:
		return installed, nil
	case len(found.Items) > 1:
		return installed,
			fmt.Errorf("namespace %s has %d Deployments with the labels %s: set --operator-namespace to another namespace, or "+
				"set it to \"\" and set the flags of the operator yourself", o.namespace, len(found.Items), inspect.OperatorLabels)
	}
	deployment := &found.Items[0]
	installed.own = []string{deployment.Namespace}
	values, err := flagsOf(deployment.Spec.Template.Spec.Containers, &installed)
	if err != nil {
		return installed, fmt.Errorf("reading the flags of Deployment %s/%s: %w", deployment.Namespace, deployment.Name, err)
	}
	values.Visit(func(f *pflag.Flag) {
		set := flags.Lookup(f.Name)
		if set == nil || set.Changed || f.Name == namespaceFlag {
			return
		}
		if strings.Contains(f.Value.String(), "$(") {
			err = errors.Join(err,
				fmt.Errorf("--%s of Deployment %s/%s has a variable in its value: set the flag of the plan yourself", f.Name,
					deployment.Namespace, deployment.Name))
		} else if list, ok := f.Value.(pflag.SliceValue); ok {
			err = errors.Join(err, set.Value.(pflag.SliceValue).Replace(list.GetSlice()))
		} else {
			err = errors.Join(err, flags.Set(f.Name, f.Value.String()))
		}
	})
	return installed, err
}

// installation is an operator in a cluster.
type installation struct {
	// own are the namespaces of the operator.
	own []string
	// watched is the only namespace that the operator works in. Empty means all namespaces.
	watched string
	// note is a sentence about the operator for the notes of the plan. It may be empty.
	note string
}

// limit returns the namespace to which a plan is limited, given the namespace of the request. "" means all namespaces.
// If the operator works in only one namespace, limit returns that namespace. It then sets note if the request is for
// all namespaces, and returns an error if the request is for another namespace.
func (i *installation) limit(namespace string) (string, error) {
	if i.watched == "" || namespace == i.watched {
		return namespace, nil
	}
	if namespace != "" {
		return "", fmt.Errorf("the operator in namespace %s works only in namespace %s, not in namespace %s: set "+
			"--operator-namespace to the namespace of another operator", i.own[0], i.watched, namespace)
	}
	i.note = fmt.Sprintf("The operator works only in namespace %s, and does not reconcile Platforms.", i.watched)
	return i.watched, nil
}

// namespaceFlag is the flag that limits the operator to a namespace. The command plan has a flag of kubectl with the
// same name, which has another meaning.
const namespaceFlag = "namespace"

// flagsOf returns the flags that the operator's container sets.
func flagsOf(containers []corev1.Container, installed *installation) (*pflag.FlagSet, error) {
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	new(operator.Flags).AddFlags(flags)
	flags.StringVar(&installed.watched, namespaceFlag, "", "")
	for _, c := range containers {
		if c.Name == "controller" {
			return flags, flags.Parse(slices.Concat(c.Command, c.Args))
		}
	}
	return flags, nil
}
