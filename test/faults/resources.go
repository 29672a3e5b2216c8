package faults

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// resource is a type of objects that the operator watches or writes.
type resource struct {
	schema.GroupVersionResource
	kind        string
	clusterWide bool
}

func core(name, kind string) resource {
	return resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: name}, kind: kind}
}

func grouped(gv schema.GroupVersion, name, kind string) resource {
	return resource{GroupVersionResource: gv.WithResource(name), kind: kind}
}

// resources are all of them. What controls another comes after it.
var resources = []resource{
	{core("namespaces", "").GroupVersionResource, "Namespace", true},
	{v1alpha1.SchemeGroupVersion.WithResource("platforms"), "Platform", true},
	grouped(v1alpha1.SchemeGroupVersion, "apps", "App"),
	grouped(v1alpha1.SchemeGroupVersion, "databases", "Database"),
	grouped(v1alpha1.SchemeGroupVersion, "externaldatabases", "ExternalDatabase"),
	grouped(cnatv1.SchemeGroupVersion, "ats", "At"),
	grouped(schema.GroupVersion{Group: "apps", Version: "v1"}, "deployments", "Deployment"),
	grouped(schema.GroupVersion{Group: "apps", Version: "v1"}, "statefulsets", "StatefulSet"),
	grouped(schema.GroupVersion{Group: "networking.k8s.io", Version: "v1"}, "ingresses", "Ingress"),
	grouped(schema.GroupVersion{Group: "autoscaling", Version: "v2"}, "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
	grouped(schema.GroupVersion{Group: "policy", Version: "v1"}, "poddisruptionbudgets", "PodDisruptionBudget"),
	core("services", "Service"),
	core("configmaps", "ConfigMap"),
	core("secrets", "Secret"),
	core("persistentvolumeclaims", "PersistentVolumeClaim"),
	core("pods", "Pod"),
}

// own tells whether a type is one of the operator's kinds.
func (r resource) own() bool {
	return r.Group == v1alpha1.SchemeGroupVersion.Group || r.Group == cnatv1.SchemeGroupVersion.Group
}

// path is that of an object, or of all objects if the name is empty.
func (r resource) path(namespace, name, subresource string) string {
	parts := []string{"", "apis", r.Group, r.Version}
	if r.Group == "" {
		parts = []string{"", "api", r.Version}
	}
	if namespace != "" && !r.clusterWide {
		parts = append(parts, "namespaces", namespace)
	}
	parts = append(parts, r.Resource)
	for _, part := range []string{name, subresource} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}

// indexOf finds a type by its group and name; -1 if it is not among resources.
func indexOf(group, name string) int {
	return slices.IndexFunc(resources, func(r resource) bool { return r.Group == group && r.Resource == name })
}

// target is what a request is about.
type target struct {
	resource                     int // index in resources; -1 if it is none of them
	namespace, name, subresource string
}

// parse reads a path as the API server does.
func parse(path string) target {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	group := ""
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = parts[1], parts[3:]
	default:
		return target{resource: -1}
	}
	var t target
	if parts[0] == "namespaces" && len(parts) > 2 {
		t.namespace, parts = parts[1], parts[2:]
	}
	t.resource = indexOf(group, parts[0])
	if len(parts) > 1 {
		t.name = parts[1]
	}
	if len(parts) > 2 {
		t.subresource = parts[2]
	}
	return t
}
