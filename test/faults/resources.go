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

func coreResource(name, kind string) resource {
	return resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: name}, kind: kind}
}

func namespaced(gv schema.GroupVersion, name, kind string) resource {
	return resource{GroupVersionResource: gv.WithResource(name), kind: kind}
}

// resources are the types that the operator watches or writes, in the order in which the simulator handles their
// objects: owners before children.
var resources = []resource{
	{coreResource("namespaces", "").GroupVersionResource, "Namespace", true},
	{v1alpha1.SchemeGroupVersion.WithResource("platforms"), "Platform", true},
	namespaced(v1alpha1.SchemeGroupVersion, "apps", "App"),
	namespaced(v1alpha1.SchemeGroupVersion, "databases", "Database"),
	namespaced(v1alpha1.SchemeGroupVersion, "externaldatabases", "ExternalDatabase"),
	namespaced(cnatv1.SchemeGroupVersion, "ats", "At"),
	namespaced(schema.GroupVersion{Group: "apps", Version: "v1"}, "deployments", "Deployment"),
	namespaced(schema.GroupVersion{Group: "apps", Version: "v1"}, "replicasets", "ReplicaSet"), // only listed
	namespaced(schema.GroupVersion{Group: "apps", Version: "v1"}, "statefulsets", "StatefulSet"),
	namespaced(schema.GroupVersion{Group: "networking.k8s.io", Version: "v1"}, "ingresses", "Ingress"),
	namespaced(schema.GroupVersion{Group: "autoscaling", Version: "v2"}, "horizontalpodautoscalers",
		"HorizontalPodAutoscaler"),
	namespaced(schema.GroupVersion{Group: "policy", Version: "v1"}, "poddisruptionbudgets", "PodDisruptionBudget"),
	coreResource("services", "Service"),
	coreResource("configmaps", "ConfigMap"),
	coreResource("secrets", "Secret"),
	coreResource("persistentvolumeclaims", "PersistentVolumeClaim"),
	coreResource("pods", "Pod"),
}

// isKind reports whether the type is one of the operator's kinds.
func (r resource) isKind() bool {
	return r.Group == v1alpha1.SchemeGroupVersion.Group || r.Group == cnatv1.SchemeGroupVersion.Group
}

// path returns the path of an object, or of the list of objects if the name is empty.
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

// indexOf returns the index of a type in resources, or -1 if the type is not there.
func indexOf(group, name string) int {
	return slices.IndexFunc(resources, func(r resource) bool { return r.Group == group && r.Resource == name })
}

// target is the object or list that a request names.
type target struct {
	resource                     int // index in resources, or -1
	namespace, name, subresource string
}

// parsePath parses the path of a request, as the API server does.
func parsePath(path string) target {
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
