package framework

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gateway "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
)

// Values of a route that the simulated controller of Gateways does not accept.
const (
	// RejectedHostname is a hostname that no listener has.
	RejectedHostname = "rejected.example.com"
	// MissingGateway is the name of a Gateway that does not exist, so that no controller reports about it.
	MissingGateway = "missing"
)

// routeInterval is the time between two rounds of the simulated controller of Gateways.
const routeInterval = 200 * time.Millisecond

// GatewayAPI returns the manifests of the kinds of routes, which are in the module of Gateway API.
func GatewayAPI() (manifests []string, err error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api")
	list.Dir = root
	dir, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("finding the module of Gateway API: %w", err)
	}
	for _, resource := range []string{"httproutes", "grpcroutes"} {
		manifests = append(manifests, filepath.Join(strings.TrimSpace(string(dir)), "config", "crd", "standard",
			"gateway.networking.k8s.io_"+resource+".yaml"))
	}
	return manifests, nil
}

// InstallGatewayAPI installs the kinds of routes.
func (c *Cluster) InstallGatewayAPI(ctx context.Context) error {
	manifests, err := GatewayAPI()
	if err != nil {
		return err
	}
	apply := []string{"apply", "--server-side"} // client-side, an HTTPRoute would exceed the size of an annotation
	for _, manifest := range manifests {
		apply = append(apply, "-f", manifest)
	}
	_, err = c.Kubectl(ctx, "", apply...)
	return err
}

// StartGateways starts a simulated controller of Gateways, which sets the status of all routes.
func (p *Installation) StartGateways() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	p.StopGateways = func() {
		cancel()
		<-ended
	}
	go func() {
		defer close(ended)
		simulateGateways(ctx, p.Gateway)
	}()
}

func simulateGateways(ctx context.Context, client gateway.Interface) {
	all := metav1.NamespaceAll
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		// Errors are ignored, because the next round repeats everything, and a test may stop the API server.
		if list, err := client.GatewayV1().HTTPRoutes(all).List(ctx, metav1.ListOptions{}); err == nil {
			for i := range list.Items {
				r := &list.Items[i]
				if decide(r, r.Spec.CommonRouteSpec, r.Spec.Hostnames, &r.Status.RouteStatus) {
					_, _ = client.GatewayV1().HTTPRoutes(r.Namespace).UpdateStatus(ctx, r, metav1.UpdateOptions{})
				}
			}
		}
		if list, err := client.GatewayV1().GRPCRoutes(all).List(ctx, metav1.ListOptions{}); err == nil {
			for i := range list.Items {
				r := &list.Items[i]
				if decide(r, r.Spec.CommonRouteSpec, r.Spec.Hostnames, &r.Status.RouteStatus) {
					_, _ = client.GatewayV1().GRPCRoutes(r.Namespace).UpdateStatus(ctx, r, metav1.UpdateOptions{})
				}
			}
		}
	}, routeInterval)
}

// decide sets the status of a route, and reports whether it has changed.
func decide(
	route metav1.Object, spec gatewayv1.CommonRouteSpec, hostnames []gatewayv1.Hostname, status *gatewayv1.RouteStatus,
) (changed bool) {
	before := status.DeepCopy()
	var parents []gatewayv1.RouteParentStatus
	for _, parent := range spec.ParentRefs {
		if parent.Name == MissingGateway {
			continue
		}
		now := gatewayv1.RouteParentStatus{ParentRef: parent, ControllerName: "example.com/gateways"}
		if i := slices.IndexFunc(before.Parents, func(p gatewayv1.RouteParentStatus) bool {
			return equality.Semantic.DeepEqual(p.ParentRef, parent)
		}); i >= 0 {
			now.Conditions = slices.Clone(before.Parents[i].Conditions)
		}
		accepted := metav1.Condition{
			Type: string(gatewayv1.RouteConditionAccepted), Status: metav1.ConditionTrue,
			Reason: string(gatewayv1.RouteReasonAccepted), ObservedGeneration: route.GetGeneration(),
		}
		if slices.Contains(hostnames, RejectedHostname) {
			accepted.Status, accepted.Reason = metav1.ConditionFalse, string(gatewayv1.RouteReasonNoMatchingListenerHostname)
			accepted.Message = "No listener has the hostname."
		}
		meta.SetStatusCondition(&now.Conditions, accepted)
		parents = append(parents, now)
	}
	status.Parents = parents
	return !equality.Semantic.DeepEqual(before, status)
}
