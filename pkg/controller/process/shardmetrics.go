package process

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
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
	handovers = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "windlass_shard_handovers_total",
		Help: "Shards that this replica has begun to work on, by cause: released (by the former holder), " +
			"expired (the former holder has not renewed its Lease) or new (nobody has held the shard before).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"cause"})
	unowned = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "windlass_shard_unowned_seconds",
		Help: "Time from the last sign of the former holder of a shard until this replica has begun to " +
			"work on the shard, by cause: see windlass_shard_handovers_total. It depends on the clocks of both nodes.",
		Buckets:        []float64{0.1, 0.25, 0.5, 1, 2, 5, 10, 15, 20, 30, 60, 120},
		StabilityLevel: metrics.ALPHA,
	}, []string{"cause"})
)

func init() {
	legacyregistry.MustRegister(layoutShards, heldShards, handovers, unowned)
	for _, cause := range []string{"new", "released", "expired"} {
		handovers.WithLabelValues(cause) // 0 until the first handover, so that Prometheus sees it as an increase
	}
}

// takeover is how this replica has acquired a shard.
type takeover struct {
	cause string    // see handovers; empty if the shard was acquired before
	since time.Time // of the last sign of the former holder
}

// takeoverFrom returns the takeover of a shard. former is its Lease before that, and holder is the Lease of its former
// holder. Both may be nil.
func takeoverFrom(former, holder *coordinationv1.Lease) takeover {
	sign := func(lease *coordinationv1.Lease) time.Time {
		if lease == nil || lease.Spec.RenewTime == nil {
			return time.Time{}
		}
		return lease.Spec.RenewTime.Time
	}
	switch {
	case former == nil:
		return takeover{cause: "new"}
	case holderOf(former) == "":
		return takeover{"released", sign(former)}
	case holder == nil:
		return takeover{"expired", sign(former)}
	}
	return takeover{"expired", sign(holder)}
}

// over records that this replica has begun to work on the shard.
func (t takeover) over() {
	if t.cause == "" {
		return
	}
	handovers.WithLabelValues(t.cause).Inc()
	if !t.since.IsZero() {
		unowned.WithLabelValues(t.cause).Observe(max(0, time.Since(t.since).Seconds()))
	}
}
