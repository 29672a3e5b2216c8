// Package inspect reads the objects of Windlass and the objects that they own, and explains their state.
package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
)

var platforms = v1alpha1.SchemeGroupVersion.WithResource("platforms")

// namespaced are the resources of Windlass in namespaces.
var namespaced = []schema.GroupVersionResource{
	v1alpha1.SchemeGroupVersion.WithResource("apps"),
	v1alpha1.SchemeGroupVersion.WithResource("databases"),
	v1alpha1.SchemeGroupVersion.WithResource("externaldatabases"),
	cnatv1.SchemeGroupVersion.WithResource("ats"),
}

// Kinds are the resources of Windlass. Kinds that own objects of other kinds come first.
var Kinds = slices.Concat([]schema.GroupVersionResource{platforms}, namespaced)

// OperatorLabels selects the Deployment of the operator. The manifests and the chart set these labels.
const OperatorLabels = "app.kubernetes.io/name=windlass,app.kubernetes.io/component=controller"

// gatewayGroup is the API group of routes.
const gatewayGroup = "gateway.networking.k8s.io"

// owned are the resources of the objects that objects of Windlass own, directly or not.
var owned = []schema.GroupVersionResource{
	{Version: "v1", Resource: "services"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "apps", Version: "v1", Resource: "replicasets"},
	{Version: "v1", Resource: "pods"},
	{Version: "v1", Resource: "persistentvolumeclaims"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	{Group: gatewayGroup, Version: "v1", Resource: "httproutes"},
	{Group: gatewayGroup, Version: "v1", Resource: "grpcroutes"},
	{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
}

// withData maps the resources that can hold confidential data to their kinds. The plugin reads only the metadata of
// these objects.
var withData = map[schema.GroupVersionResource]string{
	{Version: "v1", Resource: "secrets"}:    "Secret",
	{Version: "v1", Resource: "configmaps"}: "ConfigMap",
}

// Reader reads objects.
type Reader struct {
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
}

// Objects are objects of a cluster.
type Objects struct {
	all []*unstructured.Unstructured
	// Denied are the resources that the user may not list.
	Denied sets.Set[string]
}

// Own returns the objects of Windlass in a namespace, or in all namespaces if namespace is empty, and all Platforms.
func (r Reader) Own(ctx context.Context, namespace string) (*Objects, error) {
	return r.read(ctx, namespace, Kinds)
}

// Namespace returns the objects of Windlass in a namespace, and the objects that they can own.
func (r Reader) Namespace(ctx context.Context, namespace string) (*Objects, error) {
	return r.read(ctx, namespace, slices.Concat(namespaced, owned, slices.Collect(maps.Keys(withData))))
}

func (r Reader) read(
	ctx context.Context, namespace string, resources []schema.GroupVersionResource,
) (*Objects, error) {
	found := &Objects{Denied: sets.New[string]()}
	for _, resource := range resources {
		in := namespace
		if resource == platforms {
			in = ""
		}
		if err := found.add(ctx, r, resource, in, ""); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// ReadWarnings adds the Warning Events of the namespace to all. If the user may not list Events, it adds none.
func (r Reader) ReadWarnings(ctx context.Context, namespace string, all *Objects) error {
	events := schema.GroupVersionResource{Version: "v1", Resource: "events"}
	return all.add(ctx, r, events, namespace, "type=Warning")
}

// add adds the objects of a resource in a namespace. It adds none if the user may not list the resource.
func (o *Objects) add(
	ctx context.Context, r Reader, resource schema.GroupVersionResource, namespace, fieldSelector string,
) error {
	items, err := r.list(ctx, resource, namespace, metav1.ListOptions{FieldSelector: fieldSelector})
	switch {
	case apierrors.IsForbidden(err) && resource.Group == gatewayGroup:
		// Most users lack this permission in a cluster without Gateway API, which has no such objects.
	case apierrors.IsForbidden(err):
		o.Denied.Insert(resource.GroupResource().String())
	case apierrors.IsNotFound(err) && slices.Contains(Kinds, resource):
		return fmt.Errorf("the CustomResourceDefinitions of Windlass are not installed in this cluster: the "+
			"API server does not know %s", resource.GroupResource())
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
	}
	for i := range items {
		o.all = append(o.all, &items[i])
	}
	return nil
}

// list returns the objects of a resource in a namespace, or their metadata if they can hold confidential data.
func (r Reader) list(
	ctx context.Context, resource schema.GroupVersionResource, namespace string, o metav1.ListOptions,
) (items []unstructured.Unstructured, err error) {
	kind, isPartial := withData[resource]
	if !isPartial {
		list, err := r.Dynamic.Resource(resource).Namespace(namespace).List(ctx, o)
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}
	list, err := r.Metadata.Resource(resource).Namespace(namespace).List(ctx, o)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&list.Items[i])
		if err != nil {
			return nil, err
		}
		items = append(items, unstructured.Unstructured{Object: fields})
		items[i].SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
	}
	return items, nil
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
		if previous := obj.GetKind() == "ReplicaSet" && counted && replicas == 0; is && !previous {
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
	var typed struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &typed) // an error means no condition
	if c := meta.FindStatusCondition(typed.Status.Conditions, kind); c != nil {
		return *c, true
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
