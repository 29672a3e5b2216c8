package main

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/version"

	"windlass.dev/windlass/cmd/controller/operator"
	"windlass.dev/windlass/pkg/controller/process"
	"windlass.dev/windlass/pkg/roots"
)

// accountNamespace is the path of the file with the namespace of the Pod.
const accountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

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
	config, namespace, inCluster, err := loadConfig(o.kubeconfig)
	if err != nil {
		return nil, err
	}
	if tls := config.TLSClientConfig; len(tls.CAData) == 0 && tls.CAFile == "" && !tls.Insecure {
		if err := roots.Provide(); err != nil {
			return nil, err
		}
	}
	config.UserAgent = "windlass-controller/" + version.Get().GitVersion
	config.QPS, config.Burst = o.qps, o.burst
	c := &clients{config: config, namespace: namespace, inCluster: inCluster}
	if c.Clients, err = operator.NewClients(config, fence.Wrap); err != nil {
		return nil, err
	}
	return c, nil
}

// loadConfig returns the configuration and the namespace from a kubeconfig. If kubeconfig is empty, it returns
// the configuration of the Pod's service account and the namespace of the Pod, and inCluster is true.
func loadConfig(kubeconfig string) (config *rest.Config, namespace string, inCluster bool, err error) {
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
		if err != nil {
			return nil, "", false, fmt.Errorf("loading the configuration of a Pod: %w; to run out of cluster, set --kubeconfig or KUBECONFIG", err)
		}
		data, err := os.ReadFile(accountNamespace)
		if err != nil {
			return nil, "", false, fmt.Errorf("reading the namespace of the Pod: %w", err)
		}
		return config, strings.TrimSpace(string(data)), true, nil
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, nil)
	if config, err = loader.ClientConfig(); err != nil {
		return nil, "", false, fmt.Errorf("reading kubeconfig %s: %w", kubeconfig, err)
	}
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", false, fmt.Errorf("reading the namespace from kubeconfig %s: %w", kubeconfig, err)
	}
	return config, namespace, false, nil
}
