package main

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"windlass.dev/windlass/cmd/kubectl-windlass/inspect"
	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/webhook/conversion"
)

// objects returns the objects that the user names.
func (o *planOptions) objects(args []string) ([]*resource.Info, error) {
	namespace, enforce, err := o.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	b := resource.NewBuilder(o.config).Unstructured().NamespaceParam(namespace).DefaultNamespace().
		AllNamespaces(o.allNamespaces).Flatten()
	switch {
	case o.all:
		b = b.ResourceTypes(allKinds()...).SelectAllParam(o.selector == "").LabelSelectorParam(o.selector).ContinueOnError()
	case len(args) > 0:
		b = b.ResourceTypeOrNameArgs(o.selector != "", args...).LabelSelectorParam(o.selector).RequireObject(true)
	default:
		b = b.FilenameParam(enforce, &o.FilenameOptions).LabelSelectorParam(o.selector)
	}
	found, err := b.Do().Infos()
	if err != nil {
		// For an object without a kind, the error of the library ends with the whole object, which can be a Secret.
		if what, _, quotes := strings.Cut(err.Error(), " is missing in "); quotes {
			return nil, errors.New(what + " is missing")
		}
	}
	if err != nil || len(args) == 0 {
		return found, err
	}
	return found, onlyOwn(found)
}

// allKinds returns the resources of Windlass as arguments of kubectl.
func allKinds() (names []string) {
	for _, resource := range inspect.Kinds {
		names = append(names, resource.GroupResource().String())
	}
	return names
}

// scope returns the namespace to which the plan is limited, or "" for all namespaces. A plan of one namespace needs
// fewer permissions, but lacks Platforms, which are cluster-scoped.
func (o *planOptions) scope(found []*resource.Info) (string, error) {
	if o.allNamespaces {
		return "", nil
	}
	namespace := ""
	for i, info := range found {
		if !info.Namespaced() || i > 0 && info.Namespace != namespace || isComponent(info) {
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

// isComponent reports whether a Platform owns an object. The Platform reverts changes of this object.
func isComponent(info *resource.Info) bool {
	live := *info
	obj, err := meta.Accessor(live.Object)
	if err == nil && obj.GetUID() == "" { // the object is from a file
		if live.Get() != nil {
			return false // the object does not exist yet
		}
		obj, err = meta.Accessor(live.Object)
	}
	if err != nil {
		return false
	}
	owner := metav1.GetControllerOfNoCopy(obj)
	return owner != nil && owner.Kind == "Platform"
}

// convert converts an At to the version that the operator reads, as the webhook of the operator does.
func (o *planOptions) convert(info *resource.Info, obj *unstructured.Unstructured) error {
	if info.Mapping.GroupVersionKind.Group != cnatv1.SchemeGroupVersion.Group ||
		info.Mapping.GroupVersionKind.Version == cnatv1.SchemeGroupVersion.Version {
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
