// Package kinds is the access to a cluster that the kinds of Windlass share. Each package below it
// reconciles one kind.
package kinds

import (
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
)

// Cluster is the access to built-in types and to the kinds of Windlass.
type Cluster struct {
	cluster.Cluster
	Windlass versioned.Interface
	// Own caches the objects of all kinds, whatever their labels: a name that is taken is known too.
	Own externalversions.SharedInformerFactory
}
