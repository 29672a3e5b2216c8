package operator

import (
	"fmt"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	gateway "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
)

// Clients holds all clients of the API server in this process.
type Clients struct {
	Kube kubernetes.Interface // protobuf
	// Serving is for the Leases, and for the webhook and the metrics, which every replica serves. No fence wraps this
	// client.
	Serving kubernetes.Interface
	CRDs    apiextensions.Interface
	// Metadata reads only the metadata of objects.
	Metadata metadata.Interface
	// Windlass is the client of Windlass' own kinds. It returns the metadata and the status of an object that it cannot
	// decode, and marks the object: see pkg/cache/lenient.
	Windlass versioned.Interface
	// Gateway is the client of Gateway API, whose kinds a cluster may lack. It decodes objects like Windlass.
	Gateway gateway.Interface
}

// NewClients returns clients for the API server in config. Requests of these clients time out: see cluster.WithTimeout.
// fence, if it is not nil, wraps the transport of the clients with which the kinds write: see process.Fence.
func NewClients(config *rest.Config, fence transport.WrapperFunc) (c Clients, err error) {
	config = cluster.WithTimeout(config)
	if c.Serving, err = kubernetes.NewForConfig(cluster.WithProtobuf(config)); err != nil {
		return c, fmt.Errorf("creating a client for built-in types: %w", err)
	}
	if c.CRDs, err = apiextensions.NewForConfig(config); err != nil {
		return c, fmt.Errorf("creating a client for CustomResourceDefinitions: %w", err)
	}
	if fence != nil {
		config = rest.CopyConfig(config)
		config.Wrap(fence)
	}
	if c.Kube, err = kubernetes.NewForConfig(cluster.WithProtobuf(config)); err != nil {
		return c, fmt.Errorf("creating a client for built-in types: %w", err)
	}
	if c.Metadata, err = metadata.NewForConfig(config); err != nil {
		return c, fmt.Errorf("creating a client for metadata: %w", err)
	}
	if c.Windlass, err = newWindlass(config); err != nil {
		return c, fmt.Errorf("creating a client for the kinds of Windlass: %w", err)
	}
	if c.Gateway, err = newGateway(config); err != nil {
		return c, fmt.Errorf("creating a client for Gateway API: %w", err)
	}
	return c, nil
}
