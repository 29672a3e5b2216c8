package sharded_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// server is an API server without the feature ShardedListAndWatch: it serves a list, and then the same events, to every
// client.
type server struct {
	list []runtime.Object // of one kind
	// initial is true if the API server can send the list as the initial events of a watch.
	initial bool
	// events are the events of the watch, in JSON. Their resource versions begin with 2.
	events []watch.Event
	// selectors has the path, the shard selector and the field selector of each request.
	selectors chan string
	// sent gets a value when a watch has sent all events.
	sent chan struct{}
}

func (s *server) start(t *testing.T) *rest.Config {
	t.Helper()
	s.selectors, s.sent = make(chan string, 100), make(chan struct{}, 100)
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	return &rest.Config{Host: listening.URL, QPS: -1}
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.selectors <- r.URL.Path + " " + r.URL.Query().Get("shardSelector") + r.URL.Query().Get("fieldSelector")
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Query().Get("sendInitialEvents") != "" && !s.initial:
		reason := apierrors.NewInvalid(schema.GroupKind{}, "", nil).Status()
		reason.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.WriteHeader(int(reason.Code))
		_ = json.NewEncoder(w).Encode(reason)
	case r.URL.Query().Get("sendInitialEvents") != "":
		for _, object := range s.list {
			_ = json.NewEncoder(w).Encode(map[string]any{"type": watch.Added, "object": object})
		}
		version, kind := s.list[0].GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		_ = json.NewEncoder(w).
			Encode(map[string]any{"type": watch.Bookmark, "object": map[string]any{"apiVersion": version, "kind": kind,
				"metadata": metav1.ObjectMeta{
					ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
				}}})
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case r.URL.Query().Get("watch") == "":
		version, kind := s.list[0].GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": version, "kind": kind + "List", "metadata": metav1.ListMeta{ResourceVersion: "1"}, "items": s.list,
		})
	default:
		for i, event := range s.events {
			object := event.Object.DeepCopyObject()
			object.(metav1.Object).SetResourceVersion(strconv.Itoa(i + 2))
			_ = json.NewEncoder(w).Encode(map[string]any{"type": event.Type, "object": object})
		}
		w.(http.Flusher).Flush()
		s.sent <- struct{}{}
		<-r.Context().Done()
	}
}

func configMap(namespace string) runtime.Object {
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metaOf(namespace)}
}

func metadataOnly(namespace string) runtime.Object {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: metaOf(namespace),
	}
}

func metaOf(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: "it", ResourceVersion: "1"}
}

// tenant returns a cluster-scoped object that belongs to a namespace.
func tenant(name, namespace string) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1", Labels: map[string]string{"of": namespace}},
	}
}
