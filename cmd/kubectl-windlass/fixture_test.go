package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubernetes "k8s.io/client-go/kubernetes/scheme"
	gateway "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/scheme"

	"windlass.dev/windlass/pkg/controller/apipath"
	windlass "windlass.dev/windlass/pkg/generated/clientset/versioned/scheme"
)

// discovered are the resources of each group and version, which a mapper of kubectl needs.
var discovered = map[string][]metav1.APIResource{
	"v1": {
		{Name: "configmaps", Kind: "ConfigMap", Namespaced: true},
		{Name: "namespaces", Kind: "Namespace"},
	},
	"windlass.dev/v1alpha1": {
		{Name: "apps", SingularName: "app", Kind: "App", Namespaced: true},
		{Name: "databases", SingularName: "database", Kind: "Database", Namespaced: true},
		{Name: "externaldatabases", SingularName: "externaldatabase", Kind: "ExternalDatabase", Namespaced: true},
		{Name: "platforms", SingularName: "platform", Kind: "Platform"},
	},
	"cnat.programming-kubernetes.info/v1": {{Name: "ats", SingularName: "at", Kind: "At", Namespaced: true}},
}

// apiServer is an API server with objects, by their paths.
type apiServer struct {
	objects map[string]*unstructured.Unstructured
	// denied is the resource that the user may not access. missing is the resource that is not installed.
	denied, missing string
	// writes are the requests that change something, with their bodies.
	writes []string
}

// newServer returns an API server with the namespace shop and the objects of manifests.
func newServer(t *testing.T, manifests ...string) *apiServer {
	t.Helper()
	s := &apiServer{objects: map[string]*unstructured.Unstructured{}}
	for _, manifest := range append(manifests, "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest), &obj.Object); err != nil {
			t.Fatalf("%v in %s", err, manifest)
		}
		plural := strings.ToLower(obj.GetKind()) + "s"
		root := "/apis/"
		if obj.GetAPIVersion() == "v1" {
			root = "/api/"
		}
		in := ""
		if obj.GetNamespace() != "" {
			in = "/namespaces/" + obj.GetNamespace()
		}
		s.objects[root+obj.GetAPIVersion()+in+"/"+plural+"/"+obj.GetName()] = obj
	}
	return s
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code, body := s.answer(r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func (s *apiServer) answer(r *http.Request) (code int, body any) {
	q := apipath.Parse(r.URL.Path)
	resource := q.Resource.GroupResource()
	switch {
	case r.URL.Path == "/api":
		return http.StatusOK, metav1.APIVersions{Versions: []string{"v1"}}
	case r.URL.Path == "/apis":
		return http.StatusOK, groups()
	case q.Resource.Resource == "":
		version := q.Resource.GroupVersion().String()
		return http.StatusOK, metav1.APIResourceList{GroupVersion: version, APIResources: discovered[version]}
	case s.denied == q.Resource.Resource:
		return failure(apierrors.NewForbidden(resource, q.Name, nil))
	case s.missing == q.Resource.Resource:
		return failure(apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, resource, q.Name,
			"404 page not found", 0, true))
	case r.Method == http.MethodPost:
		obj := &unstructured.Unstructured{}
		_ = json.NewDecoder(r.Body).Decode(&obj.Object)
		return http.StatusCreated, obj.Object
	case r.Method == http.MethodGet && q.Name == "":
		return http.StatusOK, s.list(r, q)
	}
	obj := s.objects[r.URL.Path]
	if obj == nil {
		return failure(apierrors.NewNotFound(resource, q.Name))
	}
	if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == "" {
		body, _ := io.ReadAll(r.Body)
		s.writes = append(s.writes, fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body))
	}
	return http.StatusOK, obj.Object
}

// list returns the list of a resource, or only the metadata if the client requests no more.
func (s *apiServer) list(r *http.Request, q apipath.Path) any {
	apiVersion, kind := q.Resource.GroupVersion().String(), kindOf(q.Resource)+"List"
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		apiVersion, kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	items := []any{}
	for _, path := range slices.Sorted(maps.Keys(s.objects)) {
		at := apipath.Parse(path)
		if at.Resource == q.Resource && (q.Namespace == "" || q.Namespace == at.Namespace) {
			items = append(items, s.objects[path].Object)
		}
	}
	metadata := map[string]any{"resourceVersion": "1"}
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata, "items": items}
}

func failure(err *apierrors.StatusError) (code int, body any) {
	status := err.Status()
	status.APIVersion, status.Kind = "v1", "Status"
	return int(status.Code), status
}

// known has the kinds of all resources that the operator lists.
var known = runtime.NewScheme()

func init() {
	utilruntime.Must(kubernetes.AddToScheme(known))
	utilruntime.Must(windlass.AddToScheme(known))
	utilruntime.Must(gateway.AddToScheme(known))
}

func kindOf(resource schema.GroupVersionResource) string {
	for kind := range known.KnownTypes(resource.GroupVersion()) {
		if plural, _ := meta.UnsafeGuessKindToResource(resource.GroupVersion().WithKind(kind)); plural == resource {
			return kind
		}
	}
	return ""
}

func groups() (all metav1.APIGroupList) {
	for _, name := range slices.Sorted(maps.Keys(discovered)) {
		if group, version, found := strings.Cut(name, "/"); found {
			known := metav1.GroupVersionForDiscovery{GroupVersion: name, Version: version}
			all.Groups = append(all.Groups, metav1.APIGroup{
				Name: group, Versions: []metav1.GroupVersionForDiscovery{known}, PreferredVersion: known,
			})
		}
	}
	return all
}

// result is the output and the exit code of a command.
type result struct {
	out, errors string
	code        int
}

// windlass runs the plugin in namespace shop.
func (s *apiServer) windlass(t *testing.T, args ...string) result {
	t.Helper()
	t.Setenv("KUBECONFIG", t.TempDir()+"/missing")
	server := httptest.NewServer(s)
	defer server.Close()
	var out, errors bytes.Buffer
	flags := []string{"--server", server.URL, "--cache-dir", t.TempDir(), "-n", "shop"}
	at := 0
	if args[0] == "__complete" {
		at = 1 // __complete must be first, and the text to complete must be last
	}
	code := run(t.Context(), slices.Insert(args, at, flags...), genericiooptions.IOStreams{Out: &out, ErrOut: &errors})
	return result{out.String(), errors.String(), code}
}
