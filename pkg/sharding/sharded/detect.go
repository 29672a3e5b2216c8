package sharded

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// served is set by Detect.
var served = metrics.NewGauge(&metrics.GaugeOpts{
	Name: "windlass_sharded_watches_served",
	Help: "1 if the API server has served a shard only (feature gate ShardedListAndWatch), and 0 if this " +
		"process discards the objects of other shards itself, when it last began to work on a shard.",
	StabilityLevel: metrics.ALPHA,
})

func init() { legacyregistry.MustRegister(served) }

const detectTimeout = 5 * time.Second

// Detect reports whether the API server limits lists and watches to the namespaces that a selector matches. Caches do
// not depend on that: see Filter. Only lists of built-in types say so, so Detect lists one ConfigMap. It returns an
// error if that takes longer than 5 s, because a replica begins to work on a shard only after that.
func Detect(ctx context.Context, selector sharding.Selector, client kubernetes.Interface) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, detectTimeout)
	defer cancel()
	list, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{Limit: 1, ShardSelector: selector.String()})
	if err != nil {
		return false, fmt.Errorf("finding out whether the API server serves shards: %w", err)
	}
	if list.ShardInfo == nil {
		served.Set(0)
		return false, nil
	}
	served.Set(1)
	return true, nil
}
