package references

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/cluster"
)

const (
	// missingRecheck is how often an object that names a missing ConfigMap is reconciled, in case the
	// event of the creation is lost.
	missingRecheck = time.Minute
	// maxResults is how many results of parse are kept in memory. If there are more ConfigMaps, the least recently used
	// results are dropped, and their ConfigMaps are read again.
	maxResults = 1 << 14
)

// ConfigMaps declares that the objects of a kind name ConfigMaps in their namespace, and reads these ConfigMaps. The
// cache has only the identity of each ConfigMap. Each version of a ConfigMap is read from the API server once, for all
// objects that name the ConfigMap.
type ConfigMaps[T controller.Object, V any] struct {
	core    coreclient.ConfigMapsGetter
	known   Known
	objects Index
	parse   func(*corev1.ConfigMap) (V, error)
	memo    *Memo[parsed[V]]
}

// parsed is the result of parse for a version of a ConfigMap.
type parsed[V any] struct {
	result V
	err    error
}

// NewConfigMaps returns the ConfigMaps that the objects of an informer name. The informer must not have
// started. names returns the names in the spec of an object. parse returns the values that a kind needs
// from a ConfigMap. Up to maxResults results are kept in memory, so parse must return an error for a
// result that is too large.
func NewConfigMaps[T controller.Object, V any](
	c cluster.Cluster, objects cache.SharedIndexInformer, names func(obj T) []string,
	parse func(*corev1.ConfigMap) (V, error),
) (*ConfigMaps[T, V], error) {
	known, err := New(c.All, corev1.SchemeGroupVersion.WithResource("configmaps"))
	if err != nil {
		return nil, err
	}
	index, err := NewIndex(objects, "configmaps", func(obj T) (keys []string) {
		for _, name := range names(obj) {
			keys = append(keys, cache.NewObjectName(obj.GetNamespace(), name).String())
		}
		return keys
	})
	if err != nil {
		return nil, err
	}
	return &ConfigMaps[T, V]{c.Kube.CoreV1(), known, index, parse, NewMemo[parsed[V]](maxResults)}, nil
}

// Watches returns the Reference to the ConfigMaps.
func (c *ConfigMaps[T, V]) Watches() []controller.Reference {
	return []controller.Reference{{Informer: c.known.Informer(), Referrers: c.objects.Of}}
}

// Get returns the result of parse for a ConfigMap that obj names. While the ConfigMap does not exist, Get
// returns a WaitFor error with reason DependencyMissing. It returns errors of parse unchanged, and wraps
// errors of the API server.
func (c *ConfigMaps[T, V]) Get(ctx context.Context, obj T, name string) (result V, err error) {
	version, err := c.known.Get(obj.GetNamespace(), name)
	if apierrors.IsNotFound(err) {
		return result, missing(name)
	}
	if err != nil {
		return result, fmt.Errorf("reading ConfigMap %s/%s from the cache: %w", obj.GetNamespace(), name, err)
	}
	found, err := c.memo.Of(ctx, version, func(ctx context.Context) (p parsed[V], err error) {
		live, err := c.core.ConfigMaps(obj.GetNamespace()).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			p.result, p.err = c.parse(live)
		}
		return p, err
	})
	if apierrors.IsNotFound(err) {
		return result, missing(name)
	}
	if err != nil {
		return result, fmt.Errorf("reading ConfigMap %s/%s: %w", obj.GetNamespace(), name, err)
	}
	return found.result, found.err
}

func missing(name string) error {
	return messageMissing.Wait(missingRecheck, name)
}
