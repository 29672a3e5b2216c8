package operator

import (
	"fmt"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
)

// Clients are all that the process talks to the API server with.
type Clients struct {
	Kube   kubernetes.Interface // protobuf
	Events kubernetes.Interface // apart, so that events take no request from the work
	Lease  kubernetes.Interface // apart, so that no work delays the lease
	CRDs   apiextensions.Interface
	// Metadata is of objects whose content stays where it is.
	Metadata metadata.Interface
	// Windlass is of Windlass' own kinds. What cannot be read of an object is left out, and the
	// object is marked: see pkg/cache/lenient.
	Windlass versioned.Interface
	// Watched fills the caches of them. Of what is too large it returns the identity alone.
	Watched versioned.Interface
}

// NewClients returns clients for the API server that config leads to. Their requests fail
// if nobody answers them for a while.
func NewClients(config *rest.Config) (c Clients, err error) {
	config = cluster.WithTimeout(config)
	builtin := cluster.WithProtobuf(config)
	for _, client := range []*kubernetes.Interface{&c.Kube, &c.Events, &c.Lease} {
		if *client, err = kubernetes.NewForConfig(builtin); err != nil {
			return c, fmt.Errorf("making a client: %w", err)
		}
	}
	if c.CRDs, err = apiextensions.NewForConfig(config); err != nil {
		return c, fmt.Errorf("making a client for CRDs: %w", err)
	}
	if c.Metadata, err = metadata.NewForConfig(config); err != nil {
		return c, fmt.Errorf("making a client for metadata: %w", err)
	}
	if c.Windlass, c.Watched, err = newWindlass(config); err != nil {
		return c, fmt.Errorf("making a client for Windlass' own kinds: %w", err)
	}
	return c, nil
}
