// Package apipath parses the paths of the Kubernetes API.
package apipath

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Path is the part of the API that a request is about. The paths are described in
// https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris.
type Path struct {
	// Resource.Resource is empty if the request is about no resource, for example for discovery.
	Resource schema.GroupVersionResource
	// Namespace is empty for a cluster-scoped object, and for all namespaces.
	Namespace string
	// Name is empty for a collection.
	Name string
	// Subresource is for example status.
	Subresource string
}

// Parse returns the Path of a URL. Before the path of the API, the URL can have the path of a proxy.
func Parse(path string) (p Path) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	root := slices.IndexFunc(parts, func(part string) bool { return part == "api" || part == "apis" })
	if root < 0 {
		return p
	}
	next := func() (part string) {
		if root++; root < len(parts) {
			part = parts[root]
		}
		return part
	}
	if parts[root] == "apis" {
		p.Resource.Group = next()
	}
	p.Resource.Version = next()
	p.Resource.Resource = next()
	// namespaces/shop/pods is about the Pods in the namespace shop. namespaces/shop, namespaces/shop/status and
	// namespaces/shop/finalize are about the namespace itself.
	rest := parts[min(root+1, len(parts)):]
	if p.Resource.Resource == "namespaces" && len(rest) > 1 && rest[1] != "status" && rest[1] != "finalize" {
		p.Namespace = next()
		p.Resource.Resource = next()
	}
	p.Name, p.Subresource = next(), next()
	return p
}

// IsWatch reports whether a request of client-go is a watch, whose response has no end.
func IsWatch(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.URL.RawQuery, "watch=true")
}

// Verb returns the verb of a request, as RBAC names it.
func (p Path) Verb(r *http.Request) string {
	switch {
	case p.Resource.Resource == "":
		return strings.ToLower(r.Method)
	case IsWatch(r):
		return "watch"
	case r.Method == http.MethodGet && p.Name == "":
		return "list"
	case r.Method == http.MethodPost:
		return "create"
	case r.Method == http.MethodPut:
		return "update"
	case r.Method == http.MethodDelete && p.Name == "":
		return "deletecollection"
	}
	return strings.ToLower(r.Method)
}
