package operator

import (
	"windlass.dev/windlass/pkg/cache/budget"
	"windlass.dev/windlass/pkg/cache/packed"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/kinds"
	"windlass.dev/windlass/pkg/sharding/sharded"
)

// Caches holds the informers that all kinds share.
type Caches struct {
	kinds.Cluster
	limit *budget.Budget
}

// CacheOptions say which objects Caches hold. The zero CacheOptions stand for the objects of all namespaces.
type CacheOptions struct {
	// Namespace is the namespace of all objects. Empty means all namespaces.
	Namespace string
	// Shard limits the caches to a shard: to its Namespaces, the objects in these Namespaces, and the Platforms whose
	// components are in these Namespaces.
	Shard sharded.Filter
	// Packers may be shared by the caches of several shards. Nil means that these caches create their own Packers.
	Packers *packed.Packers
}

// NewCaches returns Caches that have not started. The memory for each namespace is limited: see package budget.
func NewCaches(c Clients, o CacheOptions) Caches {
	limit := &budget.Budget{}
	var newInformer packed.NewInformer
	if !o.Shard.Empty() {
		newInformer = o.Shard.Informer
	}
	return Caches{
		limit: limit,
		Cluster: kinds.Cluster{
			Cluster: cluster.New(c.Kube, o.Shard.Metadata(c.Metadata), cluster.Options{
				Namespace:   o.Namespace,
				ManagedBy:   controller.ManagedByWindlass,
				Groups:      ownGroups,
				Limit:       limit,
				NewInformer: newInformer,
				Packers:     o.Packers,
			}),
			Windlass: c.Windlass,
			Kinds:    newInformers(c.Windlass, o.Namespace, o.Shard, limit),
			Gateway:  c.Gateway,
			Routes:   newRoutes(c.Gateway, o.Namespace, o.Shard, limit),
		},
	}
}

// Start starts the informers that the kinds have requested. The informers run until stop is closed.
func (c Caches) Start(stop <-chan struct{}) {
	c.Cluster.Start(stop)
	c.Kinds.Start(stop)
	c.Routes.Start(stop)
}

// Shutdown waits until all informers have ended. The caller must first close the channel passed to Start.
func (c Caches) Shutdown() {
	c.Cluster.Shutdown()
	c.Kinds.Shutdown()
	c.Routes.Shutdown()
}
