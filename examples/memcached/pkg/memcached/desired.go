package memcached

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// port is the port of memcached, and the ID of the user in its image.
const port = 11211

// selectorOf returns the labels of the Pods. They never change: the selector of a Deployment is immutable.
func selectorOf(s *scope) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "memcached", "app.kubernetes.io/instance": s.memcached.Name}
}

// desiredService returns the headless Service: its name resolves to the addresses of all servers.
func desiredService(s *scope) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Labels: selectorOf(s)}, Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone,
		Selector:  selectorOf(s),
		Ports:     []corev1.ServicePort{{Name: "memcached", Port: port, TargetPort: intstr.FromInt32(port)}},
	}}
}

func desiredDeployment(s *scope) *appsv1.Deployment {
	container := corev1.Container{
		Name:  "memcached",
		Image: s.memcached.Spec.Image,
		Args: append([]string{
			fmt.Sprintf("--memory-limit=%d", s.memcached.Spec.MemoryMegabytes),
		}, strings.Fields(s.arguments)...),
		Ports: []corev1.ContainerPort{{Name: "memcached", ContainerPort: port}},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}},
		},
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](port), AllowPrivilegeEscalation: ptr.To(false),
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Labels: selectorOf(s)}, Spec: appsv1.DeploymentSpec{
		Replicas: s.memcached.Spec.Replicas,
		Selector: &metav1.LabelSelector{MatchLabels: selectorOf(s)},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: selectorOf(s)},
			Spec:       corev1.PodSpec{AutomountServiceAccountToken: ptr.To(false), Containers: []corev1.Container{container}},
		},
	}}
}
