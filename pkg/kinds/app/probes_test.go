package app

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

func TestProbesDefaultToFirstTCPPort(t *testing.T) {
	udp := v1alpha1.AppPort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}
	api := withPorts(udp, v1alpha1.AppPort{Name: "api", Port: 9000}, v1alpha1.AppPort{Name: "metrics", Port: 9090})
	for name, c := range map[string]struct {
		probe v1alpha1.AppContainerProbe
		want  corev1.ProbeHandler
	}{
		"an HTTP request": {
			v1alpha1.AppContainerProbe{HTTPGet: &v1alpha1.AppHTTPGet{}},
			corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("api")}},
		},
		"an HTTP request to another port": {
			v1alpha1.AppContainerProbe{HTTPGet: &v1alpha1.AppHTTPGet{
				Path: "/ready", Port: ptr.To(intstr.FromString("metrics")), Scheme: corev1.URISchemeHTTPS,
				HTTPHeaders: []corev1.HTTPHeader{{Name: "Host", Value: "a"}},
			}},
			corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: "/ready", Port: intstr.FromString("metrics"), Scheme: corev1.URISchemeHTTPS,
				HTTPHeaders: []corev1.HTTPHeader{{Name: "Host", Value: "a"}},
			}},
		},
		"a TCP connection": {
			v1alpha1.AppContainerProbe{TCPSocket: &v1alpha1.AppTCPSocket{}},
			corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("api")}},
		},
		"a TCP connection to another port": {
			v1alpha1.AppContainerProbe{TCPSocket: &v1alpha1.AppTCPSocket{Port: ptr.To(intstr.FromInt32(9090))}},
			corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(9090)}},
		},
		"gRPC": {
			v1alpha1.AppContainerProbe{GRPC: &v1alpha1.AppGRPC{}},
			corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 9000, Service: ptr.To("")}},
		},
		"gRPC at another port": {
			v1alpha1.AppContainerProbe{GRPC: &v1alpha1.AppGRPC{Port: 9090, Service: "shop"}},
			corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 9090, Service: ptr.To("shop")}},
		},
		"a command": {
			v1alpha1.AppContainerProbe{Exec: &v1alpha1.AppExec{Command: []string{"/ready"}}},
			corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/ready"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.probe.InitialDelaySeconds, c.probe.PeriodSeconds, c.probe.TimeoutSeconds = 1, 2, 3
			c.probe.FailureThreshold, c.probe.SuccessThreshold = 4, 5
			want := &corev1.Probe{
				ProbeHandler: c.want, InitialDelaySeconds: 1, PeriodSeconds: 2, TimeoutSeconds: 3,
				FailureThreshold: 4, SuccessThreshold: 5,
			}
			for field, set := range map[string]v1alpha1.AppProbes{
				"startup": {Startup: &c.probe}, "liveness": {Liveness: &c.probe}, "readiness": {Readiness: &c.probe},
			} {
				container := desiredPod(example(api, func(app *v1alpha1.App) { app.Spec.Probes = &set })).Containers[0]
				for name, probe := range map[string]*corev1.Probe{
					"startup": container.StartupProbe, "liveness": container.LivenessProbe, "readiness": container.ReadinessProbe,
				} {
					if name == field {
						controllertest.Equal(t, name+" probe", want, probe)
					} else {
						controllertest.Equal(t, name+" probe beside a "+field+" probe", (*corev1.Probe)(nil), probe)
					}
				}
			}
		})
	}
}

func TestProbeIsShortFormOfReadinessProbe(t *testing.T) {
	short := example(func(app *v1alpha1.App) { app.Spec.Probe = &v1alpha1.AppProbe{Path: "/a"} })
	long := example(func(app *v1alpha1.App) {
		app.Spec.Probes = &v1alpha1.AppProbes{Readiness: &v1alpha1.AppContainerProbe{
			HTTPGet: &v1alpha1.AppHTTPGet{Path: "/a"},
		}}
	})
	controllertest.Equal(t, "Pods", desiredPod(long), desiredPod(short))
}
