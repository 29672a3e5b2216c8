// Package kinds holds the clients and caches that the kinds of Windlass share. Each of the packages app, at, database,
// externaldatabase and platform reconciles one kind.
package kinds

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gateway "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
	gatewayinformers "sigs.k8s.io/gateway-api/pkg/client/informers/externalversions"

	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/controller/cluster"
	"windlass.dev/windlass/pkg/generated/clientset/versioned"
	"windlass.dev/windlass/pkg/generated/informers/externalversions"
)

// Cluster holds the clients and caches of built-in types, of the kinds of Windlass and of the routes of Gateway API.
type Cluster struct {
	cluster.Cluster
	Windlass versioned.Interface
	// Kinds caches all objects of the kinds of Windlass, whatever their labels, so that the caches show which
	// names are taken.
	Kinds externalversions.SharedInformerFactory
	// Gateway is the client of Gateway API, whose kinds a cluster may lack.
	Gateway gateway.Interface
	// Routes caches the routes whose label app.kubernetes.io/managed-by has the value windlass. The caches are empty while
	// the cluster lacks the kinds.
	Routes gatewayinformers.SharedInformerFactory
}

// gatewayAPI is the provider of the kinds of routes: see children.Resource.
const gatewayAPI = "Gateway API v1 (https://gateway-api.sigs.k8s.io)"

// HTTPRoutes returns the Resource for HTTPRoutes.
func (c Cluster) HTTPRoutes() children.Resource[*gatewayv1.HTTPRoute] {
	return children.Resource[*gatewayv1.HTTPRoute]{
		Kind: "HTTPRoute", Custom: true, Provider: gatewayAPI, Informer: c.Routes.Gateway().V1().HTTPRoutes().Informer(),
		Client: func(ns string) children.Client[*gatewayv1.HTTPRoute] { return c.Gateway.GatewayV1().HTTPRoutes(ns) },
	}
}

// GRPCRoutes returns the Resource for GRPCRoutes.
func (c Cluster) GRPCRoutes() children.Resource[*gatewayv1.GRPCRoute] {
	return children.Resource[*gatewayv1.GRPCRoute]{
		Kind: "GRPCRoute", Custom: true, Provider: gatewayAPI, Informer: c.Routes.Gateway().V1().GRPCRoutes().Informer(),
		Client: func(ns string) children.Client[*gatewayv1.GRPCRoute] { return c.Gateway.GatewayV1().GRPCRoutes(ns) },
	}
}
