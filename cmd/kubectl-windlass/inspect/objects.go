// Package inspect reads the objects of Windlass and the objects that they own, and explains their state.
package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
)

// Kinds are the resources of Windlass, the kinds that own others first.
var Kinds = []schema.GroupVersionResource{
	v1alpha1.SchemeGroupVersion.WithResource("platforms"),
	v1alpha1.SchemeGroupVersion.WithResource("apps"),
	v1alpha1.SchemeGroupVersion.WithResource("databases"),
	v1alpha1.SchemeGroupVersion.WithResource("externaldatabases"),
	cnatv1.SchemeGroupVersion.WithResource("ats"),
}

// OperatorLabels select the Deployment of the operator, as the manifests and the chart label it.
const OperatorLabels = "app.kubernetes.io/name=windlass,app.kubernetes.io/component=controller"

const platforms = "platforms"

// owned are the resources of the objects that objects of Windlass own, directly or not.
var owned = []schema.GroupVersionResource{
	{Version: "v1", Resource: "services"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "apps", Version: "v1", Resource: "replicasets"},
	{Version: "v1", Resource: "pods"},
	{Version: "v1", Resource: "persistentvolumeclaims"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
}

// withData maps the resources that can hold confidential data to their kinds. The plugin reads only their metadata.
var withData = map[schema.GroupVersionResource]string{
	{Version: "v1", Resource: "secrets"}:    "Secret",
	{Version: "v1", Resource: "configmaps"}: "ConfigMap",
}

// Reader reads objects.
type Reader struct {
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
}

// Objects are the objects of a namespace.
type Objects struct {
	all []*unstructured.Unstructured
	// warnings are the Warning Events: see Reader.ReadWarnings.
	warnings []unstructured.Unstructured
	// Denied are the resources that the user may not list.
	Denied sets.Set[string]
}

// Namespace returns the objects of Windlass in a namespace, and the objects that they can own.
func (r Reader) Namespace(ctx context.Context, namespace string) (*Objects, error) {
	found := &Objects{Denied: sets.New[string]()}
	for _, resource := range slices.Concat(Kinds, owned) {
		if resource.Resource == platforms {
			continue
		}
		list, err := r.Dynamic.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if ok, err := found.allowed(resource, err); !ok {
			if err != nil {
				return nil, err
			}
			continue
		}
		for i := range list.Items {
			found.all = append(found.all, &list.Items[i])
		}
	}
	for resource, kind := range withData {
		list, err := r.Metadata.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if ok, err := found.allowed(resource, err); !ok {
			if err != nil {
				return nil, err
			}
			continue
		}
		for i := range list.Items {
			found.all = append(found.all, partial(kind, &list.Items[i]))
		}
	}
	return found, nil
}

// allowed reports whether a list has a result. err is nil if the user may not list the resource.
func (o *Objects) allowed(resource schema.GroupVersionResource, err error) (bool, error) {
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsForbidden(err):
		o.Denied.Insert(resource.GroupResource().String())
		return false, nil
	case apierrors.IsNotFound(err) && slices.Contains(Kinds, resource):
		return false, fmt.Errorf("the CustomResourceDefinitions of Windlass are not installed in this cluster: the "+
			"API server does not know %s", resource.GroupResource())
	case apierrors.IsNotFound(err):
		return false, nil
	}
	return false, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
}

// partial returns the metadata of an object of a kind of withData as an object.
func partial(kind string, of *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetAPIVersion("v1")
	obj.SetKind(kind)
	obj.SetNamespace(of.Namespace)
	obj.SetName(of.Name)
	obj.SetUID(of.UID)
	obj.SetCreationTimestamp(of.CreationTimestamp)
	obj.SetOwnerReferences(of.OwnerReferences)
	obj.SetAnnotations(of.Annotations)
	return obj
}

// Find returns the object of a kind with a name, or nil.
func (o *Objects) Find(kind, name string) *unstructured.Unstructured {
	for _, obj := range o.all {
		if obj.GetKind() == kind && obj.GetName() == name {
			return obj
		}
	}
	return nil
}

// OwnedBy returns the objects that an object owns, sorted by kind and name. It omits ReplicaSets that are scaled to 0.
func (o *Objects) OwnedBy(owner *unstructured.Unstructured) (all []*unstructured.Unstructured) {
	for _, obj := range o.all {
		controller := metav1.GetControllerOfNoCopy(obj)
		is := controller != nil && controller.UID == owner.GetUID() ||
			controller == nil && obj.GetAnnotations()[children.MadeForAnnotation] == owner.GetKind()+"/"+owner.GetName()
		replicas, counted, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas")
		if former := obj.GetKind() == "ReplicaSet" && counted && replicas == 0; is && !former {
			all = append(all, obj)
		}
	}
	slices.SortFunc(all, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return all
}

// text returns a field of type string, or "".
func text(obj *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(obj.Object, path...)
	return value
}

// condition returns the condition of a type. ok is false if the object has none.
func condition(obj *unstructured.Unstructured, kind string) (found metav1.Condition, ok bool) {
	all, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range all {
		fields, is := c.(map[string]any)
		if !is || fields["type"] != kind {
			continue
		}
		get := func(name string) string { value, _ := fields[name].(string); return value }
		found = metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(get("status")), Reason: get("reason"), Message: get("message"),
		}
		// it stays zero if it cannot be parsed
		_ = found.LastTransitionTime.UnmarshalQueryParameter(get("lastTransitionTime"))
		return found, true
	}
	return found, false
}

// IsOwn reports whether a kind is a kind of Windlass.
func IsOwn(kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(Kinds, func(r schema.GroupVersionResource) bool {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		return r.GroupResource() == plural.GroupResource()
	})
}

// Name returns the name of an object in texts, for example App shop/web.
func Name(obj *unstructured.Unstructured) string {
	return strings.TrimSpace(obj.GetKind() + " " + strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/"))
}
