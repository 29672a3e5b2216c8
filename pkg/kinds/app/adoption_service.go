package app

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller"
)

// adoptionRecheck is how often an App is reconciled that cannot adopt an object.
const adoptionRecheck = 30 * time.Second

// adoptService prevents the adoption of a Service if clients would lose an address, and until the Deployment is
// available. If this reconcile has adopted the Deployment, each port of the Service leads to the number of the
// container's port, unless the previous Pods have the name of the port: see keepTargets. A later reconcile does not
// know the previous Pods, and adopts the Service only after the rollout.
func adoptService(p *scope, desired, live *corev1.Service) error {
	if lost := lostAddress(desired, live); lost != "" {
		return controller.Stalled(messageLostAddress.Error(live.Namespace+"/"+live.Name, lost), adoptionRecheck)
	}
	d := p.deployment()
	if d == nil || !isAvailable(d) {
		return p.WaitToAdopt(live, "Deployment")
	}
	if isRolledOut(d) {
		return nil
	}
	if p.adopted == nil {
		return p.WaitToAdopt(live, "Deployment")
	}
	for i, port := range portsOf(p.app) {
		hasName := func(c corev1.Container) bool { return hasPort(c, port) }
		if !slices.ContainsFunc(p.adopted.Spec.Template.Spec.Containers, hasName) {
			desired.Spec.Ports[i].TargetPort = intstr.FromInt32(port.Port)
		}
	}
	return nil
}

// lostAddress describes an address of a live Service that the desired Service lacks, or returns "".
func lostAddress(desired, live *corev1.Service) string {
	typeOf := func(s *corev1.Service) corev1.ServiceType { return cmp.Or(s.Spec.Type, corev1.ServiceTypeClusterIP) }
	if is := typeOf(live); is != typeOf(desired) {
		return "the type " + string(is)
	}
	for _, port := range live.Spec.Ports {
		protocol := cmp.Or(port.Protocol, corev1.ProtocolTCP)
		i := slices.IndexFunc(desired.Spec.Ports, func(other corev1.ServicePort) bool {
			return other.Port == port.Port && other.Protocol == protocol
		})
		switch {
		case i < 0:
			return fmt.Sprintf("port %d/%s", port.Port, protocol)
		case port.Name != "" && port.Name != desired.Spec.Ports[i].Name:
			return fmt.Sprintf("the name %s of port %d/%s", port.Name, port.Port, protocol)
		}
	}
	switch is, want := &live.Spec, &desired.Spec; {
	case len(is.ExternalIPs) > 0:
		return "its externalIPs"
	case is.LoadBalancerIP != "":
		return "its loadBalancerIP"
	case !slices.Equal(is.LoadBalancerSourceRanges, want.LoadBalancerSourceRanges):
		return "its loadBalancerSourceRanges"
	case is.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal &&
		want.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal:
		return "externalTrafficPolicy: Local"
	}
	return ""
}

// hasPort reports whether a container has a port with the name and protocol of a port of an App.
func hasPort(c corev1.Container, port v1alpha1.AppPort) bool {
	return slices.ContainsFunc(c.Ports, func(is corev1.ContainerPort) bool {
		return is.Name == port.Name && is.Protocol == port.Protocol
	})
}

// isAvailable reports whether a Deployment has enough available Pods, according to its status.
func isAvailable(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue
	})
}
