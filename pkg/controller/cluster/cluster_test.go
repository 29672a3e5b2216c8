package cluster_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestOnlyChildrenOfOwnGroupsAreCachedWhole(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.ConfigMap)
		whole  bool
	}{
		"a child":                               {func(*corev1.ConfigMap) {}, true},
		"a child that lost its owner reference": {func(c *corev1.ConfigMap) { c.OwnerReferences = nil }, true},
		"an object of a kind of another operator": {
			func(c *corev1.ConfigMap) { c.OwnerReferences[0].APIVersion = "other.example.com/v1" }, false,
		},
		"an object that nobody controls": {func(c *corev1.ConfigMap) { c.OwnerReferences, c.Annotations = nil, nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			child := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: "memory", UID: "a", ResourceVersion: "1",
					Labels:      map[string]string{controller.ManagedByLabel: "memcached-operator"},
					Annotations: map[string]string{children.RecordAnnotation: "{}"},
					OwnerReferences: []metav1.OwnerReference{
						{APIVersion: "cache.example.com/v1alpha1", Kind: "Memcached", Name: "memory", Controller: ptr.To(true)},
					},
				},
				Data: map[string]string{"key": "value"},
			}
			test.change(child)
			caches := cluster.New(fake.NewClientset(child),
				metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()), cluster.Options{
					ManagedBy: "memcached-operator", Groups: []string{"cache.example.com"}, Limit: &budget.Budget{},
				})
			informer := caches.ConfigMaps().Informer
			caches.Start(t.Context().Done())
			if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
				t.Fatal("the cache has not synced")
			}
			cached, err := children.CacheOf[*corev1.ConfigMap](informer.GetIndexer()).Get("default", "memory")
			if err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "cached whole", test.whole, cached.Data != nil)
		})
	}
}
