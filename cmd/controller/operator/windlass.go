package operator

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gateway "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
	gatewayscheme "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/scheme"
	typedgatewayv1 "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/typed/apis/v1"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/cache/lenient"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
	"windlass.dev/windlass/pkg/generated/clientset/versioned/scheme"
	typedcnatv1 "windlass.dev/windlass/pkg/generated/clientset/versioned/typed/cnat/v1"
	typedv1alpha1 "windlass.dev/windlass/pkg/generated/clientset/versioned/typed/windlass/v1alpha1"
)

// lenientClients is a generated clientset whose clients use the decoder of package lenient. The constructors
// of the generated clients do not let callers choose a decoder.
type lenientClients struct {
	versioned.Interface
	cnat     typedcnatv1.CnatV1Interface
	windlass typedv1alpha1.WindlassV1alpha1Interface
}

// CnatV1 implements versioned.Interface.
func (c *lenientClients) CnatV1() typedcnatv1.CnatV1Interface { return c.cnat }

// WindlassV1alpha1 implements versioned.Interface.
func (c *lenientClients) WindlassV1alpha1() typedv1alpha1.WindlassV1alpha1Interface {
	return c.windlass
}

// newWindlass returns a clientset for Windlass' own kinds.
func newWindlass(config *rest.Config) (versioned.Interface, error) {
	connections, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	generated, err := versioned.NewForConfigAndClient(config, connections)
	if err != nil {
		return nil, err
	}
	codecs := rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs)
	cnat, err := lenientREST(config, connections, codecs, cnatv1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	windlass, err := lenientREST(config, connections, codecs, v1alpha1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return &lenientClients{generated, typedcnatv1.New(cnat), typedv1alpha1.New(windlass)}, nil
}

// lenientGateway is a generated clientset of Gateway API whose client of v1 uses the decoder of package lenient. The
// schema of routes accepts times that their Go types cannot hold.
type lenientGateway struct {
	gateway.Interface
	v1 typedgatewayv1.GatewayV1Interface
}

// GatewayV1 implements gateway.Interface.
func (c *lenientGateway) GatewayV1() typedgatewayv1.GatewayV1Interface { return c.v1 }

// newGateway returns a clientset for the kinds of Gateway API.
func newGateway(config *rest.Config) (gateway.Interface, error) {
	connections, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	generated, err := gateway.NewForConfigAndClient(config, connections)
	if err != nil {
		return nil, err
	}
	codecs := rest.CodecFactoryForGeneratedClient(gatewayscheme.Scheme, gatewayscheme.Codecs)
	v1, err := lenientREST(config, connections, codecs, gatewayv1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return &lenientGateway{generated, typedgatewayv1.New(v1)}, nil
}

// lenientREST returns a client for an API version. codecs decode its types.
func lenientREST(
	config *rest.Config, connections *http.Client, codecs serializer.CodecFactory, version schema.GroupVersion,
) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &version, "/apis"
	config.NegotiatedSerializer = lenient.Serializer(codecs.WithoutConversion())
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	client, err := rest.RESTClientForConfigAndClient(config, connections)
	if err != nil {
		return nil, fmt.Errorf("creating a client for %s: %w", version, err)
	}
	return client, nil
}
