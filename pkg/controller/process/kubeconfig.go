package process

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// accountToken is the path of the token of the Pod's service account.
const accountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// LoadConfig returns the configuration of clients by the rules of client-go: from the file kubeconfig, or else from
// the files in the environment variable KUBECONFIG, or else from ~/.kube/config. Without any of these files, it returns
// the configuration of the Pod's service account. master, if it is not empty, replaces the address of the API server.
// namespace is the namespace of the kubeconfig or of the Pod. inCluster is true for the Pod's service account.
func LoadConfig(master, kubeconfig string) (config *rest.Config, namespace string, inCluster bool, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	overrides := &clientcmd.ConfigOverrides{ClusterInfo: clientcmdapi.Cluster{Server: master}}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	if config, err = loader.ClientConfig(); err != nil {
		return nil, "", false, fmt.Errorf(
			"loading the kubeconfig of --kubeconfig, KUBECONFIG or ~/.kube/config, or the service account of a Pod: %w", err)
	}
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", false, fmt.Errorf("reading the namespace of the kubeconfig or of the Pod: %w", err)
	}
	return config, namespace, config.BearerTokenFile == accountToken, nil
}
