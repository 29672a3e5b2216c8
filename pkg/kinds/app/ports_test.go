package app

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
	"windlass.dev/windlass/pkg/kinds/internal/kindtest"
)

// withPorts returns a change of the ports of an App.
func withPorts(ports ...v1alpha1.AppPort) func(*v1alpha1.App) {
	return func(app *v1alpha1.App) { app.Spec.Port, app.Spec.Ports = 0, ports }
}

func TestServicePortsLeadToPortsOfContainer(t *testing.T) {
	http := v1alpha1.AppPort{Name: "http", Port: 3000}
	grpc := v1alpha1.AppPort{Name: "api", Port: 9000, AppProtocol: ptr.To("grpc")}
	dns := v1alpha1.AppPort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP, ServicePort: 5353}
	for name, c := range map[string]struct {
		change    func(*v1alpha1.App)
		container []corev1.ContainerPort
		service   []corev1.ServicePort
	}{
		"neither port nor ports": {
			func(app *v1alpha1.App) { app.Spec.Port = 0 },
			[]corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}},
			[]corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http"), Protocol: "TCP"}},
		},
		"port": {
			func(app *v1alpha1.App) { app.Spec.Port = 9000 },
			[]corev1.ContainerPort{{Name: "http", ContainerPort: 9000, Protocol: "TCP"}},
			[]corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http"), Protocol: "TCP"}},
		},
		"a port with the name http": {
			withPorts(http),
			[]corev1.ContainerPort{{Name: "http", ContainerPort: 3000, Protocol: "TCP"}},
			[]corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http"), Protocol: "TCP"}},
		},
		"two ports": {
			withPorts(v1alpha1.AppPort{Name: "grpc", Port: 9000, AppProtocol: ptr.To("kubernetes.io/h2c")}, dns),
			[]corev1.ContainerPort{
				{Name: "grpc", ContainerPort: 9000, Protocol: "TCP"}, {Name: "dns", ContainerPort: 53, Protocol: "UDP"},
			},
			[]corev1.ServicePort{
				{
					Name: "grpc", Port: 9000, TargetPort: intstr.FromString("grpc"), Protocol: "TCP",
					AppProtocol: ptr.To("kubernetes.io/h2c"),
				},
				{Name: "dns", Port: 5353, TargetPort: intstr.FromString("dns"), Protocol: "UDP"},
			},
		},
		"gRPC without a route": {
			withPorts(grpc),
			[]corev1.ContainerPort{{Name: "api", ContainerPort: 9000, Protocol: "TCP"}},
			[]corev1.ServicePort{{
				Name: "api", Port: 9000, TargetPort: intstr.FromString("api"), Protocol: "TCP", AppProtocol: ptr.To("grpc"),
			}},
		},
		"gRPC with a route": {
			func(app *v1alpha1.App) {
				withPorts(grpc)(app)
				withRouteTo()(app)
			},
			[]corev1.ContainerPort{{Name: "api", ContainerPort: 9000, Protocol: "TCP"}},
			[]corev1.ServicePort{{
				Name: "api", Port: 9000, TargetPort: intstr.FromString("api"), Protocol: "TCP",
				AppProtocol: ptr.To("kubernetes.io/h2c"),
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			app := example(c.change)
			controllertest.Equal(t, "ports of the container", c.container, desiredPod(app).Containers[0].Ports)
			controllertest.Equal(t, "ports of the Service", c.service, desiredService(app, nil).Spec.Ports)
		})
	}
}

func TestURLIsFirstHostOrFirstPort(t *testing.T) {
	ingress := func(hosts ...string) func(*v1alpha1.App) {
		return func(app *v1alpha1.App) { app.Spec.Ingress = &v1alpha1.AppIngress{Hosts: hosts, Path: "/a/"} }
	}
	withTLS := func(app *v1alpha1.App) {
		app.Spec.Ingress = &v1alpha1.AppIngress{Host: "a.example.com", TLSSecretName: "t"}
	}
	for name, c := range map[string]struct {
		change func(*v1alpha1.App)
		url    string
	}{
		"an App without ports and Ingress": {func(*v1alpha1.App) {}, "http://web.default.svc"},
		"another port": {
			withPorts(v1alpha1.AppPort{Name: "api", Port: 9000}), "http://web.default.svc:9000",
		},
		"a port of the name https": {
			withPorts(v1alpha1.AppPort{Name: "https", Port: 443}), "http://web.default.svc:443",
		},
		"HTTPS at the usual port": {
			withPorts(v1alpha1.AppPort{Name: "a", Port: 8443, ServicePort: 443, AppProtocol: ptr.To("https")}),
			"https://web.default.svc",
		},
		"a UDP port": {
			withPorts(v1alpha1.AppPort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}), "",
		},
		"no port":                         {withPorts([]v1alpha1.AppPort{}...), ""},
		"an Ingress":                      {ingress("*.example.com", "a.example.com"), "http://a.example.com/a"},
		"an Ingress with TLS":             {withTLS, "https://a.example.com"},
		"an Ingress with a wildcard only": {ingress("*.example.com"), "http://web.default.svc"},
	} {
		t.Run(name, func(t *testing.T) { controllertest.Equal(t, "URL", c.url, urlOf(example(c.change))) })
	}
}

func TestAppWithoutPortsHasNoService(t *testing.T) {
	f := readyFixture(t)
	f.Change(func(app *v1alpha1.App) { app.Spec.Port, app.Spec.Ports = 0, []v1alpha1.AppPort{} })
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	controllertest.Equal(t, "Service", (*corev1.Service)(nil), kindtest.Get[*corev1.Service](f.Cluster, "default", "web"))
	pod := f.deployment().Spec.Template.Spec
	controllertest.Equal(t, "ports", nil, pod.Containers[0].Ports)
	controllertest.Equal(t, "lifecycle", (*corev1.Lifecycle)(nil), pod.Containers[0].Lifecycle)
	controllertest.Equal(t, "grace period", ptr.To[int64](30), pod.TerminationGracePeriodSeconds)
	controllertest.Equal(t, "URL", "", f.Object().Status.URL)

	f.Change(func(app *v1alpha1.App) { app.Spec.Ports = nil })
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	if kindtest.Get[*corev1.Service](f.Cluster, "default", "web") == nil {
		t.Error("an App that gets a port again has no Service")
	}
}

func TestServiceAndIngressFollowSpec(t *testing.T) {
	f := readyFixture(t, withAllChildren)
	before := kindtest.Get[*corev1.Service](f.Cluster, "default", "web").Spec
	f.Change(func(app *v1alpha1.App) {
		app.Spec.Service = &v1alpha1.AppService{
			Annotations: map[string]string{"example.com/lb": "internal"}, Type: corev1.ServiceTypeLoadBalancer,
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, TrafficDistribution: ptr.To("PreferSameZone"),
			SessionAffinity: corev1.ServiceAffinityClientIP, LoadBalancerClass: ptr.To("example.com/internal"),
			LoadBalancerSourceRanges: []string{"10.0.0.0/8"},
		}
		app.Spec.Ingress = &v1alpha1.AppIngress{
			Hosts: []string{"a.example.com", "b.example.com"}, Annotations: map[string]string{"example.com/size": "8m"},
			PathType: networkingv1.PathTypeExact, Path: "/", TLSSecretName: "tls",
		}
	})
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	service := kindtest.Get[*corev1.Service](f.Cluster, "default", "web")
	want := before.DeepCopy()
	want.Type, want.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
	want.TrafficDistribution, want.SessionAffinity = ptr.To("PreferSameZone"), corev1.ServiceAffinityClientIP
	want.LoadBalancerClass, want.LoadBalancerSourceRanges = ptr.To("example.com/internal"), []string{"10.0.0.0/8"}
	controllertest.Equal(t, "Service", *want, service.Spec)
	controllertest.Equal(t, "annotation of the Service", "internal", service.Annotations["example.com/lb"])

	ingress := kindtest.Get[*networkingv1.Ingress](f.Cluster, "default", "web")
	controllertest.Equal(t, "annotation of the Ingress", "8m", ingress.Annotations["example.com/size"])
	controllertest.Equal(t, "TLS", []networkingv1.IngressTLS{{
		Hosts: []string{"a.example.com", "b.example.com"}, SecretName: "tls",
	}}, ingress.Spec.TLS)
	for i, host := range []string{"a.example.com", "b.example.com"} {
		rule := ingress.Spec.Rules[i]
		controllertest.Equal(t, "host", host, rule.Host)
		controllertest.Equal(t, "type of the path", ptr.To(networkingv1.PathTypeExact), rule.HTTP.Paths[0].PathType)
	}

	f.Change(func(app *v1alpha1.App) { app.Spec.Service, app.Spec.Ingress.Annotations = nil, nil })
	controllertest.ErrorContains(t, "", f.Reconcile().Err)
	service = kindtest.Get[*corev1.Service](f.Cluster, "default", "web")
	controllertest.Equal(t, "Service after spec.service is removed", before, service.Spec)
	ingress = kindtest.Get[*networkingv1.Ingress](f.Cluster, "default", "web")
	for _, annotations := range []map[string]string{service.Annotations, ingress.Annotations} {
		controllertest.Equal(t, "annotations that stay", "", annotations["example.com/lb"]+annotations["example.com/size"])
	}
}

// TestRenamedPortLeadsToPodsUntilTheyAreReplaced follows the target of the Service from before a port gets another name
// until all Pods have the new name.
func TestRenamedPortLeadsToPodsUntilTheyAreReplaced(t *testing.T) {
	f := rolledOutFixture(t)
	target := func() intstr.IntOrString {
		return kindtest.Get[*corev1.Service](f.Cluster, "default", "web").Spec.Ports[0].TargetPort
	}
	controllertest.Equal(t, "target at first", intstr.FromString("http"), target())
	f.Change(withPorts(v1alpha1.AppPort{Name: "web", Port: 8080, ServicePort: 80}))
	f.reconcile()
	controllertest.Equal(t, "target while beforeRollout runs", intstr.FromInt32(8080), target())
	f.endRun(0, "")
	f.reconcile()
	controllertest.Equal(t, "name of the port in the template", "web",
		f.deployment().Spec.Template.Spec.Containers[0].Ports[0].Name)
	controllertest.Equal(t, "target while previous Pods run", intstr.FromInt32(8080), target())
	f.rollOut()
	f.reconcile()
	controllertest.Equal(t, "target after the rollout", intstr.FromString("web"), target())
}

func TestPortWithAnotherNameAndNumberKeepsItsTargetWhileTheTemplateIsHeld(t *testing.T) {
	f := rolledOutFixture(t)
	f.Change(withPorts(v1alpha1.AppPort{Name: "web", Port: 9090, ServicePort: 80}))
	f.reconcile()
	controllertest.Equal(t, "target while beforeRollout runs", intstr.FromString("http"),
		kindtest.Get[*corev1.Service](f.Cluster, "default", "web").Spec.Ports[0].TargetPort)
	f.endRun(0, "")
	f.reconcile()
	controllertest.Equal(t, "target after beforeRollout", intstr.FromString("web"),
		kindtest.Get[*corev1.Service](f.Cluster, "default", "web").Spec.Ports[0].TargetPort)
}

func TestServiceStaysUntilPodsAreReplaced(t *testing.T) {
	f := rolledOutFixture(t)
	f.Change(withPorts([]v1alpha1.AppPort{}...))
	f.reconcile()
	if kindtest.Get[*corev1.Service](f.Cluster, "default", "web") == nil {
		t.Error("the Service was deleted while beforeRollout runs")
	}
	f.endRun(0, "")
	f.reconcile()
	if kindtest.Get[*corev1.Service](f.Cluster, "default", "web") != nil {
		t.Error("the Service was not deleted after beforeRollout")
	}
}
