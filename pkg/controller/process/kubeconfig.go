package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// accountToken is the path of the token of the Pod's service account.
const accountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// LoadConfig returns the configuration of clients: from the file kubeconfig, or else from the files in the environment
// variable KUBECONFIG, or else from the Pod's service account, or else, out of cluster, from ~/.kube/config. The rules
// are those of client-go, except that LoadConfig returns an error if KUBECONFIG names only missing files: the operator
// would otherwise work on another cluster. master, if it is not empty, replaces the address of the API server. Without a
// kubeconfig, its clients are then anonymous. namespace is the namespace of the kubeconfig or of the Pod. inCluster is
// true for the Pod's service account.
func LoadConfig(master, kubeconfig string) (config *rest.Config, namespace string, inCluster bool, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.MigrationRules = nil // of a path that kubectl used before version 1
	rules.ExplicitPath = kubeconfig
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if _, err := rest.InClusterConfig(); err == nil {
			rules.Precedence = nil
		}
	} else if kubeconfig == "" && !slices.ContainsFunc(rules.Precedence, exists) {
		return nil, "", false, fmt.Errorf("no file in the environment variable KUBECONFIG=%s exists",
			os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	}
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

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
