package children_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/packed"
	"windlass.dev/windlass/pkg/controller/children"
)

func TestCacheOfReturnsCachedChild(t *testing.T) {
	child, transform := made(t), new(packed.Packers).Transform(&budget.Budget{}, "windlass.dev")
	child.TypeMeta, child.ManagedFields = metav1.TypeMeta{}, nil  // caches drop these fields
	child.OwnerReferences[0].APIVersion = "windlass.dev/v1alpha1" // children of this group are cached whole
	packedChild, err := transform(child.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	for range 100 { // so that the child is no longer among the latest objects, which are kept unpacked
		if _, err := transform(made(t)); err != nil {
			t.Fatal(err)
		}
	}
	for name, cached := range map[string]any{"whole": child, "packed": packedChild} {
		t.Run(name, func(t *testing.T) {
			store := packed.Indexer{Indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
			if err := store.Add(cached); err != nil {
				t.Fatal(err)
			}
			all := children.CacheOf[*appsv1.Deployment](store)
			got, err := all.Get("port", "boat")
			if diff := cmp.Diff(child, got); err != nil || diff != "" {
				t.Errorf("it is another (%v): %s", err, diff)
			}
			if _, err := all.Get("port", "raft"); !apierrors.IsNotFound(err) {
				t.Errorf("one that is not there is said to be %v", err)
			}
			if _, err := children.CacheOf[*corev1.Service](store).Get("port", "boat"); err == nil || apierrors.IsNotFound(err) {
				t.Errorf("a Deployment was taken for a Service (%v)", err)
			}
		})
	}
}
