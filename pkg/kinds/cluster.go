// Package kinds holds the clients and caches that the kinds of Windlass share. Each of the packages app, at, database,
// externaldatabase and platform reconciles one kind.
package kinds

import (
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
)

// Cluster holds the clients and caches of built-in types and of the kinds of Windlass.
type Cluster struct {
	cluster.Cluster
	Windlass versioned.Interface
	// Kinds caches all objects of the kinds of Windlass, whatever their labels, so that the caches show which
	// names are taken.
	Kinds externalversions.SharedInformerFactory
}
