// Command memcached-operator reconciles Memcacheds. It runs in a cluster, or out of cluster with a kubeconfig.
package main

import (
	"k8s.io/client-go/rest"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/controller/process"

	"example.com/memcached/pkg/apis/cache/v1alpha1"
	"example.com/memcached/pkg/generated/clientset/versioned"
	"example.com/memcached/pkg/generated/clientset/versioned/scheme"
	"example.com/memcached/pkg/generated/informers/externalversions"
	"example.com/memcached/pkg/memcached"
)

func main() {
	process.Main(process.Operator{
		Name:   "memcached-operator",
		Groups: []string{v1alpha1.GroupName},
		Scheme: scheme.Scheme,
		Kinds:  kinds,
	})
}

// kinds returns the controllers of the operator, and the caches of its kinds.
func kinds(
	config *rest.Config, c cluster.Cluster, r controller.Runtime,
) ([]*controller.Controller, []process.Caches, error) {
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	own := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithTransform(c.Transform()))
	kind, err := memcached.Declare(c, client, own)
	if err != nil {
		return nil, nil, err
	}
	made, err := kind.Controller(r)
	return []*controller.Controller{made}, []process.Caches{own}, err
}
