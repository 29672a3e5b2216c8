package app

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

const (
	// defaultPort is the default of spec.port. Its name is httpPort.
	defaultPort = 8080
	httpPort    = "http"
	// The ports of HTTP and HTTPS, which URLs omit.
	portOfHTTP  = 80
	portOfHTTPS = 443
)

// portsOf returns the ports of an App with their defaults.
func portsOf(app *v1alpha1.App) []v1alpha1.AppPort {
	if app.Spec.Ports == nil {
		port := cmp.Or(app.Spec.Port, defaultPort)
		return []v1alpha1.AppPort{{Name: httpPort, Port: port, ServicePort: portOfHTTP, Protocol: corev1.ProtocolTCP}}
	}
	ports := slices.Clone(app.Spec.Ports)
	for i := range ports {
		p := &ports[i]
		p.Protocol = cmp.Or(p.Protocol, corev1.ProtocolTCP)
		if p.Name == httpPort {
			p.ServicePort = cmp.Or(p.ServicePort, portOfHTTP)
		}
		p.ServicePort = cmp.Or(p.ServicePort, p.Port)
	}
	return ports
}

// firstPort returns the first port of an App, or the zero value.
func firstPort(app *v1alpha1.App) (first v1alpha1.AppPort) {
	if ports := portsOf(app); len(ports) > 0 {
		first = ports[0]
	}
	return first
}

// firstTCPPort returns the first TCP port of an App, or the zero value.
func firstTCPPort(app *v1alpha1.App) (first v1alpha1.AppPort) {
	ports := portsOf(app)
	i := slices.IndexFunc(ports, func(p v1alpha1.AppPort) bool { return p.Protocol == corev1.ProtocolTCP })
	if i >= 0 {
		first = ports[i]
	}
	return first
}

// containerPorts returns the ports of the container of an App.
func containerPorts(app *v1alpha1.App) (ports []corev1.ContainerPort) {
	for _, p := range portsOf(app) {
		ports = append(ports, corev1.ContainerPort{Name: p.Name, ContainerPort: p.Port, Protocol: p.Protocol})
	}
	return ports
}

// hasService reports whether the App has a Service.
func hasService(app *v1alpha1.App) bool { return len(portsOf(app)) > 0 }

// desiredService returns the Service, which selects the Pods with the labels of selector.
func desiredService(app *v1alpha1.App, selector map[string]string) *corev1.Service {
	service := &corev1.Service{ObjectMeta: metaOf(app), Spec: corev1.ServiceSpec{Selector: selector}}
	for _, p := range portsOf(app) {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name: p.Name, Port: p.ServicePort, TargetPort: intstr.FromString(p.Name), Protocol: p.Protocol,
			AppProtocol: p.AppProtocol,
		})
	}
	if hasRoute(app) && isForGRPC(app) {
		service.Spec.Ports[0].AppProtocol = ptr.To(protocolH2C)
	}
	if want := app.Spec.Service; want != nil {
		service.Annotations = maps.Clone(want.Annotations)
		spec := &service.Spec
		spec.Type, spec.SessionAffinity = want.Type, want.SessionAffinity
		spec.ExternalTrafficPolicy, spec.TrafficDistribution = want.ExternalTrafficPolicy, want.TrafficDistribution
		spec.LoadBalancerClass = want.LoadBalancerClass
		spec.LoadBalancerSourceRanges = want.LoadBalancerSourceRanges
	}
	return service
}

// hasIngress reports whether the App has an Ingress.
func hasIngress(app *v1alpha1.App) bool { return app.Spec.Ingress != nil && hasService(app) }

func desiredIngress(app *v1alpha1.App) *networkingv1.Ingress {
	want := app.Spec.Ingress
	ingress := &networkingv1.Ingress{
		ObjectMeta: metaOf(app), Spec: networkingv1.IngressSpec{IngressClassName: want.ClassName},
	}
	ingress.Annotations = maps.Clone(want.Annotations)
	hosts := hostsOf(want)
	for _, host := range hosts {
		path := networkingv1.HTTPIngressPath{
			Path: want.Path, PathType: ptr.To(cmp.Or(want.PathType, networkingv1.PathTypePrefix)),
			Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
				Name: app.Name, Port: networkingv1.ServiceBackendPort{Name: firstPort(app).Name},
			}},
		}
		ingress.Spec.Rules = append(ingress.Spec.Rules, networkingv1.IngressRule{
			Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{path},
			}},
		})
	}
	if want.TLSSecretName != "" {
		ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: hosts, SecretName: want.TLSSecretName}}
	}
	return ingress
}

// hostsOf returns the hosts of an Ingress.
func hostsOf(ingress *v1alpha1.AppIngress) []string {
	if ingress.Host != "" {
		return []string{ingress.Host}
	}
	return ingress.Hosts
}

// urlOf returns the URL of the first host of the Ingress that is not a wildcard, or else the URL of the route. Without
// such a host, urlOf returns the URL of the first port of the Service, or "" if that port is not a TCP port.
func urlOf(app *v1alpha1.App) string {
	if hasIngress(app) {
		hosts := hostsOf(app.Spec.Ingress)
		i := slices.IndexFunc(hosts, func(host string) bool { return !strings.HasPrefix(host, "*.") })
		if i >= 0 {
			scheme := "http"
			if app.Spec.Ingress.TLSSecretName != "" {
				scheme = "https"
			}
			return scheme + "://" + hosts[i] + strings.TrimSuffix(app.Spec.Ingress.Path, "/")
		}
	}
	if url := routeURL(app); url != "" {
		return url
	}
	port, scheme, usual := firstPort(app), "http", int32(portOfHTTP)
	if port.Protocol != corev1.ProtocolTCP {
		return ""
	}
	if ptr.Deref(port.AppProtocol, "") == "https" {
		scheme, usual = "https", portOfHTTPS
	}
	url := fmt.Sprintf("%s://%s.%s.svc", scheme, app.Name, app.Namespace)
	if port.ServicePort != usual {
		url += fmt.Sprintf(":%d", port.ServicePort)
	}
	return url
}
