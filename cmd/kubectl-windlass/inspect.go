package main

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"windlass.dev/windlass/cmd/kubectl-windlass/inspect"
	"windlass.dev/windlass/cmd/kubectl-windlass/report"
)

// inspector holds the dependencies of the commands that read objects.
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

// client returns a client for the kinds of Kubernetes.
func (i inspector) client() (kubernetes.Interface, error) {
	config, err := i.config.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// builder returns a builder of requests for objects in the namespace of the user.
func (i inspector) builder() (*resource.Builder, error) {
	namespace, _, err := i.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	return resource.NewBuilder(i.config).Unstructured().NamespaceParam(namespace).DefaultNamespace().Flatten(), nil
}

// named returns the objects of Windlass that args name.
func (i inspector) named(args []string) ([]*resource.Info, error) {
	b, err := i.builder()
	if err != nil {
		return nil, err
	}
	found, err := b.ResourceTypeOrNameArgs(false, args...).Do().Infos()
	if err != nil {
		return nil, err
	}
	return found, onlyOwn(found)
}

// onlyOwn returns an error if the kind of an object is not a kind of Windlass.
func onlyOwn(found []*resource.Info) error {
	for _, info := range found {
		if kind := info.Mapping.GroupVersionKind; !inspect.IsOwn(kind) {
			return fmt.Errorf("%s %s is not an object of Windlass: name an App, At, Database, ExternalDatabase or Platform",
				kind.Kind, info.Name)
		}
	}
	return nil
}

// objects returns the objects of Windlass that args name.
func (i inspector) objects(args []string) (all []*unstructured.Unstructured, err error) {
	found, err := i.named(args)
	if err != nil {
		return nil, err
	}
	for _, info := range found {
		if obj, ok := info.Object.(*unstructured.Unstructured); ok { // always: see builder
			all = append(all, obj)
		}
	}
	return all, nil
}

// namespaceOf returns the namespace of the objects that an object owns.
func namespaceOf(obj *unstructured.Unstructured) string {
	if obj.GetKind() == "Platform" {
		namespace, _, _ := unstructured.NestedString(obj.Object, "spec", "namespace")
		return namespace
	}
	return obj.GetNamespace()
}

// noteDenied prints which objects the output lacks, because the user may not list them.
func noteDenied(w io.Writer, denied sets.Set[string]) {
	if names := sets.List(denied); len(names) > 0 {
		report.Lines(w, "You may not list "+strings.Join(names, ", ")+". The output lacks these objects.")
	}
}
