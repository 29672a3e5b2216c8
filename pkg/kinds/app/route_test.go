package app

import (
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// withRouteTo returns a change after which an App has a route with these parents.
func withRouteTo(parents ...v1alpha1.AppParentRef) func(*v1alpha1.App) {
	return func(app *v1alpha1.App) {
		app.Spec.Route = &v1alpha1.AppRoute{ParentRefs: parents, Hostnames: []string{"a.example.com"}}
	}
}

var publicGateway = v1alpha1.AppParentRef{Name: "public", Namespace: "edge"}

// decide sets the status that the controller of a Gateway sets on the HTTPRoute: the conditions about the parent i.
func (f fixture) decide(i int, found ...metav1.Condition) {
	kindtest.Change(f.Cluster, "default", "web", func(r *gatewayv1.HTTPRoute) {
		for j := range found {
			found[j].ObservedGeneration = r.Generation
		}
		r.Status.Parents = append(r.Status.Parents, gatewayv1.RouteParentStatus{
			ParentRef: r.Spec.ParentRefs[i], ControllerName: "example.com/gateways", Conditions: found,
		})
	})
}

var (
	accepted = metav1.Condition{Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted"}
	resolved = metav1.Condition{Type: "ResolvedRefs", Status: metav1.ConditionTrue, Reason: "ResolvedRefs"}
)

func (f fixture) httpRoute() *gatewayv1.HTTPRoute {
	return kindtest.Get[*gatewayv1.HTTPRoute](f.Cluster, "default", "web")
}

// reconciled reconciles the App, and returns its phase and the message of its condition Ready.
func (f fixture) reconciled() (phase v1alpha1.AppPhase, message string) {
	f.reconcile()
	app := f.Object()
	return app.Status.Phase, conditions.Find(app.Status.Conditions, conditions.Ready).Message
}

func TestHTTPRouteLeadsToFirstPort(t *testing.T) {
	f := readyFixture(t, withPorts(v1alpha1.AppPort{Name: "api", Port: 9000, ServicePort: 90}), func(app *v1alpha1.App) {
		app.Spec.Route = &v1alpha1.AppRoute{
			ParentRefs: []v1alpha1.AppParentRef{publicGateway, {Kind: "ListenerSet", Name: "own", SectionName: "https"}},
			Hostnames:  []string{"*.example.com", "a.example.com"}, Path: "/v1/",
		}
	})
	group := ptr.To(gatewayv1.Group("gateway.networking.k8s.io"))
	want := gatewayv1.HTTPRouteSpec{
		CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{
			{
				Group: group, Kind: ptr.To(gatewayv1.Kind("Gateway")), Name: "public",
				Namespace: ptr.To(gatewayv1.Namespace("edge")),
			},
			{
				Group: group, Kind: ptr.To(gatewayv1.Kind("ListenerSet")), Name: "own",
				SectionName: ptr.To(gatewayv1.SectionName("https")),
			},
		}},
		Hostnames: []gatewayv1.Hostname{"*.example.com", "a.example.com"},
		Rules: []gatewayv1.HTTPRouteRule{{
			Matches: []gatewayv1.HTTPRouteMatch{{
				Path: &gatewayv1.HTTPPathMatch{Type: ptr.To(gatewayv1.PathMatchPathPrefix), Value: ptr.To("/v1/")},
			}},
			BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: backendOf(f.Object())}},
		}},
	}
	controllertest.Equal(t, "spec of the HTTPRoute", want, f.httpRoute().Spec)
	backend := f.httpRoute().Spec.Rules[0].BackendRefs[0]
	controllertest.Equal(t, "name of the backend", "web", string(backend.Name))
	controllertest.Equal(t, "port of the backend", int32(90), *backend.Port)
	controllertest.Equal(t, "URL", "https://a.example.com/v1", f.Object().Status.URL)
	if !metav1.IsControlledBy(f.httpRoute(), f.Object()) {
		t.Error("the App does not control its HTTPRoute")
	}

	f.Change(func(app *v1alpha1.App) { app.Spec.Route = nil })
	controllertest.Equal(t, "writes after route is removed", []string{"delete httproutes default/web", updateStatus},
		f.Reconcile().Writes)
}

func TestAppForGRPCHasGRPCRoute(t *testing.T) {
	f := readyFixture(t, withRouteTo(publicGateway))
	f.Change(withPorts(v1alpha1.AppPort{Name: "api", Port: 9000, AppProtocol: ptr.To("grpc")}))
	f.reconcile()
	controllertest.Equal(t, "HTTPRoute", (*gatewayv1.HTTPRoute)(nil), f.httpRoute())
	spec := kindtest.Get[*gatewayv1.GRPCRoute](f.Cluster, "default", "web").Spec
	controllertest.Equal(t, "hostnames", []gatewayv1.Hostname{"a.example.com"}, spec.Hostnames)
	controllertest.Equal(t, "backend", backendOf(f.Object()), spec.Rules[0].BackendRefs[0].BackendRef)
}

// TestRouteStaysUntilRouteOfOtherKindExists changes the protocol of the first port, while the API server rejects the
// GRPCRoute, and then while beforeRollout runs.
func TestRouteStaysUntilRouteOfOtherKindExists(t *testing.T) {
	grpc := withPorts(v1alpha1.AppPort{Name: "api", Port: 9000, AppProtocol: ptr.To("grpc")})
	f := readyFixture(t, withRouteTo(publicGateway))
	f.Change(grpc)
	f.Journal.FailNext("create", "grpcroutes", apierrors.NewForbidden(gatewayv1.Resource("grpcroutes"), "web", nil))
	f.Reconcile()
	if f.httpRoute() == nil {
		t.Error("the HTTPRoute was deleted before the App had a GRPCRoute")
	}
	f.reconcile()
	controllertest.Equal(t, "HTTPRoute beside the GRPCRoute", (*gatewayv1.HTTPRoute)(nil), f.httpRoute())

	f = rolledOutFixture(t)
	f.Change(withRouteTo(publicGateway))
	f.reconcile()
	f.Observe()
	f.Change(grpc)
	f.reconcile()
	grpcRoute := func() *gatewayv1.GRPCRoute { return kindtest.Get[*gatewayv1.GRPCRoute](f.Cluster, "default", "web") }
	if f.httpRoute() == nil || grpcRoute() != nil {
		t.Error("the previous Pods lost their HTTPRoute while beforeRollout runs")
	}
	f.endRun(0, "")
	f.reconcile()
	if f.httpRoute() != nil || grpcRoute() == nil {
		t.Error("the new Pods have no GRPCRoute")
	}
}

// TestPodsAreCountedWhileRouteIsPending scales an App whose route no controller accepts.
func TestPodsAreCountedWhileRouteIsPending(t *testing.T) {
	f := readyFixture(t, withRouteTo(publicGateway))
	f.Change(func(app *v1alpha1.App) { app.Spec.Replicas = ptr.To[int32](4) })
	f.reconcile()
	f.rollOut()
	f.Observe()
	phase, _ := f.reconciled()
	controllertest.Equal(t, "phase", v1alpha1.AppDeploying, phase)
	controllertest.Equal(t, "replicas", int32(4), f.Object().Status.Replicas)
}

func TestURLOfRoute(t *testing.T) {
	listener := func(name string) v1alpha1.AppParentRef {
		return v1alpha1.AppParentRef{Name: "public", SectionName: name}
	}
	withIngress := func(app *v1alpha1.App) {
		withAllChildren(app)
		withRouteTo(publicGateway)(app)
	}
	withoutPort := func(app *v1alpha1.App) {
		withRouteTo(publicGateway)(app)
		withPorts([]v1alpha1.AppPort{}...)(app)
	}
	withoutHostnames := func(app *v1alpha1.App) { app.Spec.Route = &v1alpha1.AppRoute{} }
	for name, c := range map[string]struct {
		change func(*v1alpha1.App)
		url    string
	}{
		"a Gateway":             {withRouteTo(publicGateway), "https://a.example.com"},
		"the listener http":     {withRouteTo(listener("http")), "http://a.example.com"},
		"listeners of both":     {withRouteTo(listener("http"), listener("https")), "https://a.example.com"},
		"no hostnames":          {withoutHostnames, "http://web.default.svc"},
		"an Ingress beside it":  {withIngress, "http://a.example.com"},
		"an App without a port": {withoutPort, ""},
	} {
		t.Run(name, func(t *testing.T) { controllertest.Equal(t, "URL", c.url, urlOf(example(c.change))) })
	}
}

// ifLong and correct are the ends of messages.
const (
	ifLong = " If this takes long, check that the Gateway exists, and that the controller of its GatewayClass runs."

	correct = " Correct spec.route, the Gateway, or the object that the problem names."
)

func TestAppIsReadyWhenEveryGatewayAcceptsItsRoute(t *testing.T) {
	other := v1alpha1.AppParentRef{Name: "internal"}
	no := func(kind, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	for name, c := range map[string]struct {
		decide  func(f fixture)
		phase   v1alpha1.AppPhase
		message string
	}{
		"no controller has reported": {
			func(fixture) {}, v1alpha1.AppDeploying,
			"Waiting for Gateway edge/public, Gateway default/internal to accept HTTPRoute web." + ifLong,
		},
		"one of two Gateways accepts": {
			func(f fixture) { f.decide(0, accepted, resolved) }, v1alpha1.AppDeploying,
			"Waiting for Gateway default/internal to accept HTTPRoute web." + ifLong,
		},
		"both Gateways accept": {
			func(f fixture) {
				f.decide(0, accepted, resolved)
				f.decide(1, accepted, resolved)
			}, v1alpha1.AppReady,
			"The newest Pods are rolled out and available. HTTPRoute web is accepted by Gateway edge/public, Gateway " +
				"default/internal.",
		},
		"a Gateway does not accept": {
			func(f fixture) {
				f.decide(1, no("Accepted", "NoMatchingListenerHostname", "No listener has the hostname"))
			}, v1alpha1.AppFailed, "Gateway default/internal does not serve HTTPRoute web: NoMatchingListenerHostname: No " +
				"listener has the hostname." + correct,
		},
		"the backend is not found": {
			func(f fixture) { f.decide(0, accepted, no("ResolvedRefs", "BackendNotFound", "no Service.")) }, v1alpha1.AppFailed,
			"Gateway edge/public does not serve HTTPRoute web: BackendNotFound: no Service." + correct,
		},
		"one of two controllers of a Gateway does not accept": {
			func(f fixture) {
				f.decide(0, accepted)
				f.decide(0, no("Accepted", "Conflicted", "two\nlines"))
			}, v1alpha1.AppFailed, "Gateway edge/public does not serve HTTPRoute web: Conflicted: two lines." + correct,
		},
		"a controller has reported about a previous generation": {
			func(f fixture) {
				f.decide(0, accepted, no("ResolvedRefs", "BackendNotFound", ""))
				f.decide(1, accepted)
				kindtest.Change(f.Cluster, "default", "web", func(r *gatewayv1.HTTPRoute) { r.Generation++ })
				f.decide(1, accepted)
			}, v1alpha1.AppDeploying, "Waiting for Gateway edge/public to accept HTTPRoute web." + ifLong,
		},
		"a controller reports no generation": {
			func(f fixture) {
				f.decide(0, accepted)
				f.decide(1, accepted)
				kindtest.Change(f.Cluster, "default", "web", func(r *gatewayv1.HTTPRoute) {
					for i := range r.Status.Parents {
						r.Status.Parents[i].Conditions[0].ObservedGeneration = 0
					}
				})
			}, v1alpha1.AppReady,
			"The newest Pods are rolled out and available. HTTPRoute web is accepted by Gateway edge/public, Gateway " +
				"default/internal.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t, withRouteTo(publicGateway, other))
			c.decide(f)
			f.Observe()
			phase, message := f.reconciled()
			controllertest.Equal(t, "phase", c.phase, phase)
			controllertest.Equal(t, "message", c.message, message)
			controllertest.Equal(t, "image of the last available template", "web:1", f.Object().Status.LastAvailable.Image)
		})
	}
}

// TestAppWithoutGatewayAPISaysWhatIsMissing reconciles an App in a cluster without the kinds of Gateway API.
func TestAppWithoutGatewayAPISaysWhatIsMissing(t *testing.T) {
	f := readyFixture(t)
	f.Change(withRouteTo(publicGateway))
	missing := apierrors.NewGenericServerResponse(http.StatusNotFound, "create", gatewayv1.Resource("httproutes"), "",
		"404 page not found", 0, true)
	f.Journal.FailNext("create", "httproutes", missing)
	result := f.Reconcile()
	controllertest.ErrorContains(t, "The cluster does not have the kind HTTPRoute. Install Gateway API v1 "+
		"(https://gateway-api.sigs.k8s.io), or remove the field of the spec that needs the kind.", result.Err)
	stalled := conditions.Find(f.Object().Status.Conditions, conditions.Stalled)
	controllertest.Equal(t, "reason", "KindNotInstalled", stalled.Reason)

	f.reconcile() // Gateway API is installed
	if f.httpRoute() == nil {
		t.Error("the App has no HTTPRoute after the installation")
	}
}
