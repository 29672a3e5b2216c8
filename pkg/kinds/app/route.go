package app

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/children"
	"windlass.dev/windlass/pkg/kinds"
)

// protocolGRPC is the value of appProtocol with which an App has a GRPCRoute instead of an HTTPRoute.
const protocolGRPC = "grpc"

// protocolH2C is the appProtocol that Kubernetes defines for HTTP/2 without TLS, which gRPC is. Gateways such as
// Traefik and NGINX Gateway Fabric do not accept another value behind a GRPCRoute.
const protocolH2C = "kubernetes.io/h2c"

// kindGateway is the default kind of a parent.
const kindGateway = "Gateway"

// hasRoute reports whether the App has a route, of either kind.
func hasRoute(app *v1alpha1.App) bool { return app.Spec.Route != nil && hasService(app) }

// isForGRPC reports whether the route of the App is a GRPCRoute.
func isForGRPC(app *v1alpha1.App) bool {
	return ptr.Deref(firstPort(app).AppProtocol, "") == protocolGRPC
}

// route is a route after it was applied.
type route struct {
	kind    string
	object  metav1.Object
	parents []gatewayv1.ParentReference
	status  []gatewayv1.RouteParentStatus
}

// routesOf declares the HTTPRoute and the GRPCRoute. An App has at most one of them, or both while one replaces the
// other.
func routesOf(c kinds.Cluster) (http, grpc children.Child[*scope]) {
	isForHTTP := func(app *v1alpha1.App) bool { return !isForGRPC(app) }
	hasHTTP, hasGRPC := cachedRoute(c.HTTPRoutes()), cachedRoute(c.GRPCRoutes())
	http = routeOf(c.HTTPRoutes(), isForHTTP, hasGRPC, desiredHTTPRoute, func(r *gatewayv1.HTTPRoute) *route {
		return &route{"HTTPRoute", r, r.Spec.ParentRefs, r.Status.Parents}
	})
	grpc = routeOf(c.GRPCRoutes(), isForGRPC, hasHTTP, desiredGRPCRoute, func(r *gatewayv1.GRPCRoute) *route {
		return &route{"GRPCRoute", r, r.Spec.ParentRefs, r.Status.Parents}
	})
	return http, grpc
}

// cachedRoute returns a function that reports whether the App has a route of a kind.
func cachedRoute[C children.Object](of children.Resource[C]) func(*scope) bool {
	routes := children.CacheOf[C](of.Informer.GetIndexer())
	return func(p *scope) bool {
		found, err := routes.Get(p.app.Namespace, p.app.Name)
		return err == nil && p.Owns(found)
	}
}

// routeOf declares the route of a kind. isKind reports whether the route of an App is of this kind, and hasOther
// whether the App has a route of the other kind.
//
// A route is only deleted for a route of the other kind after that one was applied. While the Pod template must not
// change, the App keeps the route that it has, because the previous Pods serve it.
func routeOf[C children.Object](
	resource children.Resource[C], isKind func(*v1alpha1.App) bool, hasOther func(*scope) bool,
	desired func(*v1alpha1.App) C, applied func(C) *route,
) children.Child[*scope] {
	return &children.Declaration[*scope, C]{
		Resource: resource,
		Needs:    []string{nameService},
		When:     func(p *scope) bool { return hasRoute(p.app) && isKind(p.app) },
		Desired:  by(desired),
		Hold: func(p *scope) bool {
			if isKind(p.app) {
				return p.hold != nil && hasOther(p)
			}
			return hasRoute(p.app) && (p.hold != nil || p.applied.route == nil)
		},
		Applied: func(p *scope, live C) {
			if p.Owns(live) { // and not one of somebody else, which Hold keeps
				p.applied.route = applied(live)
			}
		},
	}
}

func desiredHTTPRoute(app *v1alpha1.App) *gatewayv1.HTTPRoute {
	path := gatewayv1.HTTPPathMatch{
		Type: ptr.To(gatewayv1.PathMatchPathPrefix), Value: ptr.To(cmp.Or(app.Spec.Route.Path, "/")),
	}
	return &gatewayv1.HTTPRoute{
		ObjectMeta: metaOf(app),
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: parentsOf(app.Spec.Route)},
			Hostnames:       hostnamesOf(app.Spec.Route),
			Rules: []gatewayv1.HTTPRouteRule{{
				Matches:     []gatewayv1.HTTPRouteMatch{{Path: &path}},
				BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: backendOf(app)}},
			}},
		},
	}
}

func desiredGRPCRoute(app *v1alpha1.App) *gatewayv1.GRPCRoute {
	return &gatewayv1.GRPCRoute{
		ObjectMeta: metaOf(app),
		Spec: gatewayv1.GRPCRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: parentsOf(app.Spec.Route)},
			Hostnames:       hostnamesOf(app.Spec.Route),
			Rules: []gatewayv1.GRPCRouteRule{{
				BackendRefs: []gatewayv1.GRPCBackendRef{{BackendRef: backendOf(app)}},
			}},
		},
	}
}

// parentsOf returns the parents of a route. They have the values that the API server would set by default, so that they
// equal the stored ones.
func parentsOf(want *v1alpha1.AppRoute) (all []gatewayv1.ParentReference) {
	for _, parent := range want.ParentRefs {
		ref := gatewayv1.ParentReference{
			Group: ptr.To(gatewayv1.Group(gatewayv1.GroupName)),
			Kind:  ptr.To(gatewayv1.Kind(cmp.Or(parent.Kind, kindGateway))),
			Name:  gatewayv1.ObjectName(parent.Name),
		}
		if parent.Namespace != "" {
			ref.Namespace = ptr.To(gatewayv1.Namespace(parent.Namespace))
		}
		if parent.SectionName != "" {
			ref.SectionName = ptr.To(gatewayv1.SectionName(parent.SectionName))
		}
		all = append(all, ref)
	}
	return all
}

func hostnamesOf(want *v1alpha1.AppRoute) (all []gatewayv1.Hostname) {
	for _, name := range want.Hostnames {
		all = append(all, gatewayv1.Hostname(name))
	}
	return all
}

// backendOf returns the reference to the first port of the Service, also with the values that the API server would set.
func backendOf(app *v1alpha1.App) gatewayv1.BackendRef {
	return gatewayv1.BackendRef{
		BackendObjectReference: gatewayv1.BackendObjectReference{
			Group: ptr.To(gatewayv1.Group("")), Kind: ptr.To(gatewayv1.Kind("Service")),
			Name: gatewayv1.ObjectName(app.Name), Port: ptr.To(firstPort(app).ServicePort),
		},
		Weight: ptr.To(int32(1)),
	}
}

// routeURL returns the URL of the first hostname of the route that is not a wildcard, or "". Only the Gateway knows
// whether it serves HTTPS. The URL begins with https, unless each parent names a listener http.
func routeURL(app *v1alpha1.App) string {
	if !hasRoute(app) {
		return ""
	}
	want := app.Spec.Route
	i := slices.IndexFunc(want.Hostnames, func(name string) bool { return !strings.HasPrefix(name, "*.") })
	if i < 0 {
		return ""
	}
	scheme := "http"
	if slices.ContainsFunc(want.ParentRefs, func(p v1alpha1.AppParentRef) bool { return p.SectionName != "http" }) {
		scheme = "https"
	}
	return scheme + "://" + want.Hostnames[i] + strings.TrimSuffix(want.Path, "/")
}
