// Package cluster gives kinds access to a cluster: the clients and caches that all kinds share.
package cluster

import (
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata/metadatainformer"

	"windlass.dev/windlass/pkg/generated/clientset/versioned"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
)

// Cluster is the clients with which kinds read and write, and the caches that they read. The
// caller starts the caches, once all controllers are made and before they run.
type Cluster struct {
	Kube     kubernetes.Interface
	Windlass versioned.Interface

	// Owned caches built-in objects that bear the label app.kubernetes.io/managed-by=windlass.
	Owned informers.SharedInformerFactory
	// Own caches the objects of Windlass' own kinds, whatever their labels: a name that is taken
	// is known too.
	Own externalversions.SharedInformerFactory
	// Others caches the metadata of the objects that Owned does not select. Of Secrets and
	// ConfigMaps that users name, the data stays where it is.
	Others metadatainformer.SharedInformerFactory
	// All caches the metadata of the objects of a type, whatever their labels.
	All metadatainformer.SharedInformerFactory
}
