package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"

	"windlass.dev/windlass/cmd/controller/operator"
)

// operatorLabels select the Deployment of the operator, as the manifests and the chart label it.
const operatorLabels = "app.kubernetes.io/name=windlass,app.kubernetes.io/component=controller"

// operatorFlags are flags that default to the flags of the operator in a cluster.
type operatorFlags struct {
	operator.Flags
	// namespace is the namespace of the operator's Deployment. Only this namespace is searched, because a Deployment of a
	// tenant could have the labels of the operator.
	namespace string
}

func (o *operatorFlags) add(flags *pflag.FlagSet) {
	o.Add(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		if isOfOperator(f.Name) {
			f.Usage += " Defaults to the value of the operator in --operator-namespace."
		}
	})
	flags.StringVar(&o.namespace, "operator-namespace", "windlass-system", "Namespace of the operator, whose flags the plan uses. Empty means that the plan uses the default values of the flags.")
}

// isOfOperator reports whether the operator has a flag of this name too.
func isOfOperator(name string) bool {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(operator.Flags).Add(flags)
	return flags.Lookup(name) != nil
}

// complete sets the flags that the user has not set to the values of the operator. It returns a note if the user may not
// read them. Without an operator in the namespace, the flags keep their default values.
func (o *operatorFlags) complete(ctx context.Context, config *rest.Config, flags *pflag.FlagSet) (note string, err error) {
	if o.namespace == "" {
		return "", nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	found, err := client.AppsV1().Deployments(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: operatorLabels})
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("You may not list Deployments in namespace %s. The plan assumes that the operator has the default values of its flags.", o.namespace), nil
	case err != nil:
		return "", fmt.Errorf("reading the flags of the operator: %w", err)
	case len(found.Items) == 0:
		return "", nil
	case len(found.Items) > 1:
		return "", fmt.Errorf("namespace %s has %d Deployments with the labels %s: name another --operator-namespace, or set it to \"\" and set the flags", o.namespace, len(found.Items), operatorLabels)
	}
	deployment := &found.Items[0]
	values, err := flagsOf(deployment.Spec.Template.Spec.Containers)
	if err != nil {
		return "", fmt.Errorf("reading the flags of Deployment %s/%s: %w", deployment.Namespace, deployment.Name, err)
	}
	values.Visit(func(f *pflag.Flag) {
		if flags.Changed(f.Name) {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			err = errors.Join(err, flags.Lookup(f.Name).Value.(pflag.SliceValue).Replace(list.GetSlice()))
		} else {
			err = errors.Join(err, flags.Set(f.Name, f.Value.String()))
		}
	})
	return "", err
}

// flagsOf returns the flags that the operator's container sets.
func flagsOf(containers []corev1.Container) (*pflag.FlagSet, error) {
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	new(operator.Flags).Add(flags)
	for _, c := range containers {
		if c.Name == "controller" {
			return flags, flags.Parse(c.Args)
		}
	}
	return flags, nil
}
