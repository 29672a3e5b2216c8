package app

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// probesOf returns the probes of an App, including spec.probe.
func probesOf(app *v1alpha1.App) v1alpha1.AppProbes {
	probes := ptr.Deref(app.Spec.Probes, v1alpha1.AppProbes{})
	if short := app.Spec.Probe; short != nil {
		probes.Readiness = &v1alpha1.AppContainerProbe{HTTPGet: &v1alpha1.AppHTTPGet{Path: short.Path}}
	}
	return probes
}

// setProbes sets the probes of the container of an App.
func setProbes(app *v1alpha1.App, container *corev1.Container) {
	probes, first := probesOf(app), firstTCPPort(app)
	container.StartupProbe = desiredProbe(probes.Startup, first)
	container.LivenessProbe = desiredProbe(probes.Liveness, first)
	container.ReadinessProbe = desiredProbe(probes.Readiness, first)
}

// desiredProbe returns a probe as a container has it, or nil. The default of its port is first.
func desiredProbe(want *v1alpha1.AppContainerProbe, first v1alpha1.AppPort) *corev1.Probe {
	if want == nil {
		return nil
	}
	probe := &corev1.Probe{
		InitialDelaySeconds: want.InitialDelaySeconds, PeriodSeconds: want.PeriodSeconds,
		TimeoutSeconds:   want.TimeoutSeconds,
		FailureThreshold: want.FailureThreshold, SuccessThreshold: want.SuccessThreshold,
	}
	name := intstr.FromString(first.Name)
	if get := want.HTTPGet; get != nil {
		probe.HTTPGet = &corev1.HTTPGetAction{
			Path: cmp.Or(get.Path, "/"), Port: ptr.Deref(get.Port, name), Scheme: get.Scheme, HTTPHeaders: get.HTTPHeaders,
		}
	}
	if socket := want.TCPSocket; socket != nil {
		probe.TCPSocket = &corev1.TCPSocketAction{Port: ptr.Deref(socket.Port, name)}
	}
	if call := want.GRPC; call != nil {
		probe.GRPC = &corev1.GRPCAction{Port: cmp.Or(call.Port, first.Port), Service: ptr.To(call.Service)}
	}
	if exec := want.Exec; exec != nil {
		probe.Exec = &corev1.ExecAction{Command: exec.Command}
	}
	return probe
}
