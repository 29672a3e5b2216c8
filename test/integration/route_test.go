//go:build integration

package integration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/conditions"
	"windlass.dev/windlass/test/framework"
)

// routed returns the spec of an App with a route, whose first port has an application protocol.
func routed(protocol string) v1alpha1.AppSpec {
	spec := smallest()
	spec.Port, spec.Ports = 0, []v1alpha1.AppPort{{Name: "api", Port: 8080, Protocol: "TCP", AppProtocol: &protocol}}
	spec.Route = &v1alpha1.AppRoute{
		ParentRefs: []v1alpha1.AppParentRef{{Name: "public"}}, Hostnames: []string{"a.example.com"},
	}
	return spec
}

// messageOf returns the message of the condition Ready.
func messageOf(app *v1alpha1.App) string {
	return conditions.Find(app.Status.Conditions, conditions.Ready).Message
}

// rolledOut is the message of a Ready App without a route.
const rolledOut = "The newest Pods are rolled out and available."

// TestRouteFollowsApp runs a route of each kind from an object of somebody else, which has its name, to its deletion.
func TestRouteFollowsApp(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct{ protocol, resource string }{
		"HTTPRoute": {"http", "httproutes"}, "GRPCRoute": {"grpc", "grpcroutes"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			namespace := shared.NewNamespace(t)
			kubectl := func(input string, args ...string) string {
				t.Helper()
				output, err := shared.Kubectl(t.Context(), input, append([]string{"-n", namespace}, args...)...)
				if err != nil {
					t.Fatal(err)
				}
				return output
			}
			kubectl(`{"apiVersion":"gateway.networking.k8s.io/v1","kind":"`+kind+`","metadata":{"name":"web"},`+
				`"spec":{"hostnames":["theirs.example.com"]}}`, "create", "-f", "-")
			shared.CreateApp(t, namespace, "web", routed(c.protocol))
			shared.AppReason(t, namespace, "web", "NameConflict")
			kubectl("", "delete", c.resource, "web")

			app := shared.AppIn(t, namespace, "web", v1alpha1.AppReady)
			want := rolledOut + " " + kind + " web is accepted by Gateway " + namespace + "/public."
			if got := messageOf(app); got != want {
				t.Errorf("the message is %q, want %q", got, want)
			}
			if app.Status.URL != "https://a.example.com" {
				t.Errorf("the URL is %s", app.Status.URL)
			}
			change := func(change func(*v1alpha1.AppRoute)) {
				shared.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) { change(app.Spec.Route) })
			}
			change(func(r *v1alpha1.AppRoute) { r.Hostnames = []string{framework.RejectedHostname} })
			shared.AppReason(t, namespace, "web", "RouteRejected")
			change(func(r *v1alpha1.AppRoute) {
				r.Hostnames, r.ParentRefs[0].Name = []string{"b.example.com"}, framework.MissingGateway
			})
			shared.AppReason(t, namespace, "web", "RoutePending")
			kubectl("", "patch", c.resource, "web", "--type=merge", "-p", `{"spec":{"hostnames":["theirs.example.com"]}}`)
			change(func(r *v1alpha1.AppRoute) { r.ParentRefs[0].Name = "public" })
			shared.AppIn(t, namespace, "web", v1alpha1.AppReady)
			if got := kubectl("", "get", c.resource, "web", "-o", "jsonpath={.spec.hostnames}"); got != `["b.example.com"]` {
				t.Errorf("the route has the hostnames %s", got)
			}

			shared.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) { app.Spec.Route = nil })
			shared.AppWith(t, namespace, "web", "without a route", func(app *v1alpha1.App) bool {
				return messageOf(app) == rolledOut
			})
			if left := kubectl("", "get", c.resource, "-o", "name"); left != "" {
				t.Errorf("%s is left", left)
			}
		})
	}
}

// TestAppContinuesWhenGatewayAPIIsInstalled removes the kinds of routes from a cluster, and installs them again, while
// the operator runs.
func TestAppContinuesWhenGatewayAPIIsInstalled(t *testing.T) {
	t.Parallel()
	on := framework.Own(t)
	remove := func() {
		t.Helper()
		if _, err := on.Kubectl(t.Context(), "", "delete", "crd", "httproutes.gateway.networking.k8s.io",
			"grpcroutes.gateway.networking.k8s.io"); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	controller, err := framework.StartController(t.Context(), on.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { controller.Terminate() })
	namespace := on.NewNamespace(t)
	spec := routed("http")
	spec.Replicas = ptr.To[int32](2)
	on.CreateApp(t, namespace, "web", spec)
	on.CreateApp(t, namespace, "other", smallest())
	on.AppIn(t, namespace, "other", v1alpha1.AppReady)
	app := on.AppReason(t, namespace, "web", "KindNotInstalled")
	want := "The cluster does not have the kind HTTPRoute. Install Gateway API v1 (https://gateway-api.sigs.k8s.io), or " +
		"remove the field of the spec that needs the kind. The operator tries again every minute."
	if got := messageOf(app); got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
	if _, err := on.Kube.PolicyV1().PodDisruptionBudgets(namespace).Get(t.Context(), "web",
		metav1.GetOptions{}); err != nil {
		t.Errorf("the other children do not exist: %v", err)
	}

	if err := on.InstallGatewayAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	on.AppIn(t, namespace, "web", v1alpha1.AppReady)

	remove()
	on.AppReason(t, namespace, "web", "KindNotInstalled")
	on.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) { app.Spec.Route = nil })
	on.AppIn(t, namespace, "web", v1alpha1.AppReady)
	if err := on.InstallGatewayAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	on.UpdateApp(t, namespace, "web", func(app *v1alpha1.App) { app.Spec = spec })
	on.AppIn(t, namespace, "web", v1alpha1.AppReady)
	if _, err := on.Gateway.GatewayV1().HTTPRoutes(namespace).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Errorf("reading the HTTPRoute: %v", err)
	}
}
