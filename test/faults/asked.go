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

// asked is a request of a process.
type asked struct {
	process *process
	target
	method, query, contentType string
	body                       []byte
	pass                       string // the reconcileID of the pass that sent it
}

func (a *asked) writes() bool { return a.method != http.MethodGet }

var verbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// id names the request in the same way in each run of a scenario.
func (a *asked) id() string {
	id := verbs[a.method] + "-" + resources[a.resource].Resource
	if a.subresource != "" {
		id += "." + a.subresource
	}
	name := a.name
	if name == "" {
		name = a.bodyName()
	}
	return id + "-" + a.process.run.plain(name)
}

// bodyName is the name of the object that a POST makes.
func (a *asked) bodyName() string {
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

// deletes is what a DELETE says beside the name; nil for one that says nothing.
func (a *asked) deletes() *metav1.DeleteOptions {
	object, err := decode(a.body)
	if err != nil {
		return nil
	}
	options, _ := object.(*metav1.DeleteOptions)
	return options
}

// changes are the object and the version of it for which a PUT or PATCH is meant.
func (a *asked) changes() (uid types.UID, version string) {
	var meant metav1.PartialObjectMetadata
	if json.Unmarshal(a.body, &meant) == nil {
		return meant.UID, meant.ResourceVersion
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

// call is the request as it is sent on.
func (a *asked) call() call {
	path := resources[a.resource].path(a.namespace, a.name, a.subresource)
	if a.query != "" {
		path += "?" + a.query
	}
	return call{method: a.method, path: path, contentType: a.contentType, body: a.body, resource: a.resource, history: a.process.run.history}
}

// about tells whether the request names the object of a run's scope.
func (a *asked) about(scope string) bool {
	return a.namespace == scope || a.name == scope || strings.HasPrefix(a.name, scope)
}
