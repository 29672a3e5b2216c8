package sharded_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/sharding/sharded"
)

// selector matches the namespaces b and default, and neither a, c nor web.
func selector() sharding.Selector {
	return sharding.NewSelector(sharding.ShardRangeRequirement{
		Key: "object.metadata.namespace", Start: "0x" + sharding.HashField("b"), End: "0x10000000000000000",
	})
}

// typed returns an informer of objects of the core group. It uses the client of another group, which must request the
// core group nevertheless.
func typed(t *testing.T, config *rest.Config, filter sharded.Filter, of runtime.Object) cache.SharedIndexInformer {
	t.Helper()
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return filter.Informer(kube.AppsV1().RESTClient(), scheme.Scheme, of, "", nil)
}

func typedConfigMaps(t *testing.T, config *rest.Config, filter sharded.Filter) cache.SharedIndexInformer {
	t.Helper()
	return typed(t, config, filter, &corev1.ConfigMap{})
}

// ofMetadata returns an informer of the metadata of ConfigMaps.
func ofMetadata(t *testing.T, config *rest.Config, filter sharded.Filter) cache.SharedIndexInformer {
	t.Helper()
	client, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	all := filter.Metadata(client).Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("")
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return all.List(ctx, o)
		},
		WatchFuncWithContext: all.Watch,
	}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
}

// tenantOf returns the namespace to which a tenant belongs.
func tenantOf(object runtime.Object) string { return object.(*corev1.Namespace).Labels["of"] }

func TestCacheHoldsObjectsOfShardOnly(t *testing.T) {
	selected := " " + selector().String()
	namespaced := func(it func(namespace string) runtime.Object) server {
		return server{
			list: []runtime.Object{it("a"), it("b"), it("c")},
			events: []watch.Event{
				{Type: watch.Modified, Object: it("a")}, {
					Type: watch.Deleted, Object: it("c"),
				}, {Type: watch.Added, Object: it("web")},
				{Type: watch.Modified, Object: it("b")}, {
					Type: watch.Added, Object: it("default"),
				}, {Type: watch.Deleted, Object: it("b")},
			},
		}
	}
	tenants := server{
		list: []runtime.Object{tenant("one", "a"), tenant("two", "b")},
		events: []watch.Event{
			{Type: watch.Modified, Object: tenant("two", "default")}, {
				Type: watch.Modified, Object: tenant("one", "b"),
			}, {Type: watch.Modified, Object: tenant("two", "a")},
			{Type: watch.Added, Object: tenant("three", "a")},
		},
	}
	for name, c := range map[string]struct {
		server   server
		informer func(*testing.T, *rest.Config, sharded.Filter) cache.SharedIndexInformer
		request  string
		seen     []string
		rest     string
	}{
		"objects": {
			server: namespaced(configMap), request: "/api/v1/configmaps" + selected, seen: []string{
				"added b/it", "changed b/it", "added default/it", "deleted b/it",
			}, rest: "default/it",
			informer: typedConfigMaps,
		},
		"metadata": {
			server: namespaced(metadataOnly), informer: ofMetadata, request: "/api/v1/configmaps" + selected, rest: "default/it",
			seen: []string{"added b/it", "changed b/it", "added default/it", "deleted b/it"},
		},
		"cluster-scoped objects, which the API server cannot select": {
			server: tenants, request: "/api/v1/namespaces ", seen: []string{
				"added two", "changed two", "added one", "deleted two",
			}, rest: "one",
			informer: func(t *testing.T, config *rest.Config, filter sharded.Filter) cache.SharedIndexInformer {
				return typed(t, config, filter.Of(tenantOf), &corev1.Namespace{})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := c.server
			informer := c.informer(t, server.start(t), sharded.NewFilter(selector(), sharded.NewStreams()))
			got := run(t, informer, len(c.seen))
			controllertest.Equal(t, "events", c.seen, got)
			controllertest.Equal(t, "cached objects", []string{c.rest}, informer.GetStore().ListKeys())
			controllertest.Equal(t, "first request", c.request, <-server.selectors)
		})
	}
}

// TestNamespacesOfDiscardedObjectsAreExcludedLater runs two informers with the same streams. The API server sends all
// objects to both informers.
func TestNamespacesOfDiscardedObjectsAreExcludedLater(t *testing.T) {
	const excluded = "metadata.namespace!=web,metadata.namespace!=a"
	request := "/api/v1/configmaps " + selector().String()
	for name, c := range map[string]struct {
		initial  bool
		of       func(namespace string) runtime.Object
		informer func(*testing.T, *rest.Config, sharded.Filter) cache.SharedIndexInformer
		// requests of the first and of the second informer
		first, second []string
	}{
		"objects in a list": {
			of: configMap, informer: typedConfigMaps,
			first:  []string{request, request, request + excluded},
			second: []string{request + excluded, request + excluded, request + excluded},
		},
		"objects in initial events": {
			of: configMap, informer: typedConfigMaps, initial: true,
			first: []string{request, request + excluded}, second: []string{request + excluded, request + excluded},
		},
		"metadata in a list": {
			of: metadataOnly, informer: ofMetadata,
			first:  []string{request, request, request + excluded},
			second: []string{request + excluded, request + excluded, request + excluded},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := server{
				initial: c.initial, list: []runtime.Object{
					c.of("a"), c.of("b"), c.of("web"),
				}, events: []watch.Event{{Type: watch.Added, Object: c.of("default")}},
			}
			config, filter := server.start(t), sharded.NewFilter(selector(), sharded.NewStreams())
			for _, want := range [][]string{c.first, c.second} {
				controllertest.Equal(t, "events", []string{
					"added b/it", "added default/it",
				}, run(t, c.informer(t, config, filter), 2))
				var got []string
				for len(server.selectors) > 0 {
					got = append(got, <-server.selectors)
				}
				controllertest.Equal(t, "requests", want, got)
			}
		})
	}
}

// run runs an informer until its handlers have got the given number of events, and returns these events.
func run(t *testing.T, informer cache.SharedIndexInformer, events int) (got []string) {
	t.Helper()
	seen := make(chan string, 100)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { seen <- "added " + keyOf(object) },
		UpdateFunc: func(_, object any) { seen <- "changed " + keyOf(object) },
		DeleteFunc: func(object any) { seen <- "deleted " + keyOf(object) },
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { informer.RunWithContext(ctx); close(ended) }()
	for range events {
		got = append(got, <-seen)
	}
	stop()
	<-ended
	return got
}

func keyOf(object any) string {
	key, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	return key
}

// TestStoppedWatchEndsWithoutReceiver stops a watch whose events nobody receives. The goroutine of the watch must end.
// Otherwise, a goroutine would stay behind for each new watch of a reflector.
func TestStoppedWatchEndsWithoutReceiver(t *testing.T) {
	s := server{
		list: []runtime.Object{metadataOnly("b")}, events: []watch.Event{
			{Type: watch.Modified, Object: metadataOnly("b")}, {Type: watch.Modified, Object: metadataOnly("b")},
		},
	}
	client, err := metadata.NewForConfig(s.start(t))
	if err != nil {
		t.Fatal(err)
	}
	events, err := sharded.NewFilter(selector(), sharded.NewStreams()).Metadata(client).
		Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	<-s.sent
	events.Stop()
	events.Stop()
	for range events.ResultChan() {
		continue // until it is closed
	}
}

func TestFilterOfAllNamespacesLimitsNothing(t *testing.T) {
	client := metadata.Interface(nil)
	filter := sharded.NewFilter(sharding.Everything(), sharded.NewStreams())
	if !filter.Empty() || filter.Metadata(client) != client ||
		sharded.NewFilter(selector(), sharded.NewStreams()).Empty() {
		t.Error("a filter of all namespaces is not empty, or another filter is")
	}
}
