package process

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	layoutShards = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "windlass_shards",
		Help:           "Number of shards in the layout that this replica uses. 0 without shards.",
		StabilityLevel: metrics.ALPHA,
	})
	heldShards = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "windlass_shards_held",
		Help:           "Number of shards that this replica works on.",
		StabilityLevel: metrics.ALPHA,
	})
)

func init() { legacyregistry.MustRegister(layoutShards, heldShards) }
