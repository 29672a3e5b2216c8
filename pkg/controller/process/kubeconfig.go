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

// LoadConfig returns the configuration of clients, by the rules of client-go. It reads the first of these sources that
// is set:
//
//  1. the file kubeconfig, which must exist,
//  2. the files in the environment variable KUBECONFIG,
//  3. the service account of the Pod,
//  4. ~/.kube/config.
//
// If all files in KUBECONFIG are missing, LoadConfig returns an error. It does not read the next source, which may be
// another cluster. If master is not empty, it replaces the address of the API server. Without a kubeconfig, the clients
// of master are anonymous. namespace is the namespace of the kubeconfig or of the Pod. inCluster is true for the
// service account of the Pod.
func LoadConfig(master, kubeconfig string) (config *rest.Config, namespace string, inCluster bool, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.MigrationRules = nil // do not copy the file that kubectl used before version 1
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
