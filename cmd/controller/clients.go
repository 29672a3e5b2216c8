package main

import (
	"k8s.io/client-go/rest"
	"k8s.io/component-base/version"

	"windlass.dev/windlass/cmd/controller/operator"
	"windlass.dev/windlass/pkg/controller/process"
	"windlass.dev/windlass/pkg/roots"
)

// clients holds the clients of the API server and their configuration.
type clients struct {
	operator.Clients
	config *rest.Config

	// namespace is the namespace of the Pod or, out of cluster, of the kubeconfig.
	namespace string
	inCluster bool
}

// newClients returns clients whose writes pass a fence: see operator.NewClients.
func newClients(o *options, fence *process.Fence) (*clients, error) {
	config, namespace, inCluster, err := process.LoadConfig(o.master, o.kubeconfig)
	if err != nil {
		return nil, err
	}
	if tls := config.TLSClientConfig; len(tls.CAData) == 0 && tls.CAFile == "" && !tls.Insecure {
		if err := roots.Provide(); err != nil {
			return nil, err
		}
	}
	config.UserAgent = "windlass-controller/" + version.Get().GitVersion
	config.QPS = -1 // API Priority and Fairness limits requests on the API server
	c := &clients{config: config, namespace: namespace, inCluster: inCluster}
	if c.Clients, err = operator.NewClients(config, fence.Wrap); err != nil {
		return nil, err
	}
	return c, nil
}
