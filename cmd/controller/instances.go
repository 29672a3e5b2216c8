package main

import (
	"context"

	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/cmd/controller/operator"
	"windlass.dev/windlass/pkg/cache/packed"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/process"
	"windlass.dev/windlass/pkg/sharding/sharded"
)

// instances creates instances of the operator, which share their clients and packers.
type instances struct {
	clients  *clients
	packers  *packed.Packers
	identity string // of this process, in Events
	kinds    operator.Options
}

// of returns an instance for the objects of a shard.
func (i instances) of(ctx context.Context, shard sharded.Filter) (process.Instance, error) {
	caches := operator.NewCaches(i.clients.Clients, operator.CacheOptions{
		Namespace: i.kinds.Namespace, Shard: shard, Packers: i.packers,
	})
	events := controller.NewEvents(i.clients.Kube.EventsV1(), operator.Scheme(), reportingController, i.identity,
		clock.RealClock{})
	served, err := operator.Kinds(ctx, caches, events, i.kinds)
	if err != nil {
		return process.Instance{}, err
	}
	return process.Instance{
		Controllers: served.All, Warm: served.Unconverted, Caches: []process.Caches{caches}, Events: events,
	}, nil
}

// shardingOf returns how the replicas share the namespaces. It returns nil with --namespace or --leader-elect=false,
// because such an operator cannot be sharded.
func shardingOf(o *options, all instances) *process.Sharding {
	if !o.mayShard() {
		return nil
	}
	streams := sharded.NewStreams()
	return &process.Sharding{
		Shards: o.shards,
		New: func(ctx context.Context, namespaces sharding.Selector) (process.Instance, error) {
			return all.of(ctx, sharded.NewFilter(namespaces, streams))
		},
		Weigh: func(ctx context.Context) (map[string]int, error) { return operator.Weigh(ctx, all.clients.Metadata) },
	}
}
