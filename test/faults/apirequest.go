package faults

import (
	"encoding/json"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	windlassscheme "windlass.dev/windlass/pkg/generated/clientset/versioned/scheme"
)

// apiRequest is a request of a process to the API server.
type apiRequest struct {
	process *process
	target
	method, query, contentType string
	body                       []byte
	reconcileID                string // the ID of the reconcile that sent the request
}

func (a *apiRequest) isWrite() bool { return a.method != http.MethodGet }

var verbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
	http.MethodDelete: "delete",
}

// id describes the request by its verb, resource and object, for example create-pods-task-pod. The ID is the same in
// each run of a scenario.
func (a *apiRequest) id() string {
	id := verbs[a.method] + "-" + resources[a.resource].Resource
	if a.subresource != "" {
		id += "." + a.subresource
	}
	name := a.name
	if name == "" {
		name = a.bodyName()
	}
	return id + "-" + a.process.run.stableName(name)
}

// bodyName returns the name of the object in the body of a POST.
func (a *apiRequest) bodyName() string {
	object, err := decode(a.body)
	if err != nil {
		return "unreadable"
	}
	named, ok := object.(metav1.ObjectMetaAccessor)
	if !ok {
		return "nameless"
	}
	return named.GetObjectMeta().GetName()
}

// deleteOptions returns the options in the body of a DELETE, or nil if there are none.
func (a *apiRequest) deleteOptions() *metav1.DeleteOptions {
	object, err := decode(a.body)
	if err != nil {
		return nil
	}
	options, _ := object.(*metav1.DeleteOptions)
	return options
}

// preconditions returns the UID and the resource version that a PUT or PATCH requires the object to have.
func (a *apiRequest) preconditions() (uid types.UID, version string) {
	var metadata metav1.PartialObjectMetadata
	if json.Unmarshal(a.body, &metadata) == nil {
		return metadata.UID, metadata.ResourceVersion
	}
	object, err := decode(a.body)
	if named, ok := object.(metav1.ObjectMetaAccessor); ok && err == nil {
		return named.GetObjectMeta().GetUID(), named.GetObjectMeta().GetResourceVersion()
	}
	return "", ""
}

func decode(body []byte) (runtime.Object, error) {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		object, _, err = windlassscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	}
	return object, err
}

// call returns the request in the form that the bridge sends.
func (a *apiRequest) call() call {
	path := resources[a.resource].path(a.namespace, a.name, a.subresource)
	if a.query != "" {
		path += "?" + a.query
	}
	return call{
		method: a.method, path: path, contentType: a.contentType, body: a.body, resource: a.resource,
		history: a.process.run.history,
	}
}

// isAbout reports whether the request belongs to the run in a namespace: its object is in the namespace, or has a
// name that begins with the name of the namespace.
func (a *apiRequest) isAbout(namespace string) bool {
	return a.namespace == namespace || a.name == namespace || strings.HasPrefix(a.name, namespace)
}
