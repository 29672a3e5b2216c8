package main

import (
	"fmt"
	"os"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/version"

	"windlass.dev/windlass/pkg/generated/clientset/versioned"
)

// accountNamespace is where a Pod finds the namespace it runs in.
const accountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// clients are all that the process talks to the API server with.
type clients struct {
	kube   kubernetes.Interface // protobuf
	events kubernetes.Interface // apart, so that events take no request from the work
	lease  kubernetes.Interface // apart, so that no work delays the lease
	crds   apiextensions.Interface
	// metadata is of objects whose content stays where it is.
	metadata metadata.Interface
	windlass versioned.Interface

	// namespace is the one this process belongs to.
	namespace string
	inCluster bool
}

func newClients(o *options) (*clients, error) {
	config, namespace, inCluster, err := loadConfig(o.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "windlass-controller/" + version.Get().GitVersion
	config.QPS, config.Burst = o.qps, o.burst
	builtin := rest.CopyConfig(config)
	builtin.ContentType = "application/vnd.kubernetes.protobuf"
	builtin.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"

	c := &clients{namespace: namespace, inCluster: inCluster}
	for _, client := range []*kubernetes.Interface{&c.kube, &c.events, &c.lease} {
		if *client, err = kubernetes.NewForConfig(builtin); err != nil {
			return nil, fmt.Errorf("making a client: %w", err)
		}
	}
	if c.crds, err = apiextensions.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client for CRDs: %w", err)
	}
	if c.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client for metadata: %w", err)
	}
	if c.windlass, err = versioned.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client for Windlass' own kinds: %w", err)
	}
	return c, nil
}

// loadConfig finds the cluster: a kubeconfig, or else the Pod's account.
func loadConfig(kubeconfig string) (config *rest.Config, namespace string, inCluster bool, err error) {
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
		if err != nil {
			return nil, "", false, fmt.Errorf("there is no cluster: give --kubeconfig or set KUBECONFIG, since this does not run in a Pod (%w)", err)
		}
		data, err := os.ReadFile(accountNamespace)
		if err != nil {
			return nil, "", false, fmt.Errorf("reading the Pod's namespace: %w", err)
		}
		return config, strings.TrimSpace(string(data)), true, nil
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, nil)
	if config, err = loader.ClientConfig(); err != nil {
		return nil, "", false, fmt.Errorf("reading kubeconfig %s: %w", kubeconfig, err)
	}
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", false, fmt.Errorf("reading kubeconfig %s: %w", kubeconfig, err)
	}
	return config, namespace, false, nil
}
