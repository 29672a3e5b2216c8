package peer

import (
	"cmp"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// The functions in this file set only the fields of a child that the App determines. They keep the defaults that the
// API server has set, because each reconcile would send a write without them.

const managedBy = "app.kubernetes.io/managed-by"

func nameOf(app *v1alpha1.App) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}
}

func selectorOf(app *v1alpha1.App) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "app", "app.kubernetes.io/instance": app.Name}
}

func setLabels(app *v1alpha1.App, child client.Object) {
	all := child.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, app.Labels)
	maps.Copy(all, selectorOf(app))
	all[managedBy] = "windlass"
	child.SetLabels(all)
}

func setConfigMap(app *v1alpha1.App, c *corev1.ConfigMap) {
	setLabels(app, c)
	c.Data = app.Spec.Config
}

func setDeployment(app *v1alpha1.App, d *appsv1.Deployment) {
	setLabels(app, d)
	d.Spec.Replicas = app.Spec.Replicas
	if d.Spec.Selector == nil {
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: selectorOf(app)}
	}
	d.Spec.Strategy = appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxUnavailable: ptr.To(intstr.FromInt32(0)), MaxSurge: ptr.To(intstr.FromString("25%")),
		},
	}
	d.Spec.MinReadySeconds = 0
	if app.Spec.Probe == nil {
		d.Spec.MinReadySeconds = 5
	}
	template := &d.Spec.Template
	template.Labels = selectorOf(app)
	template.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	template.Spec.Volumes = []corev1.Volume{{Name: "config",
		VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: app.Name},
			DefaultMode:          ptr.To(corev1.ConfigMapVolumeSourceDefaultMode),
		}}}}
	template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](35)
	if len(template.Spec.Containers) == 0 {
		template.Spec.Containers = []corev1.Container{{Name: "app"}}
	}
	c := &template.Spec.Containers[0]
	c.Image, c.Command, c.Args = app.Spec.Image, app.Spec.Command, app.Spec.Args
	c.Env, c.EnvFrom = app.Spec.Env, app.Spec.EnvFrom
	c.Resources = app.Spec.Resources
	c.Ports = []corev1.ContainerPort{{
		Name: "http", ContainerPort: cmp.Or(app.Spec.Port, 8080), Protocol: corev1.ProtocolTCP,
	}}
	c.SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if probe := app.Spec.Probe; probe != nil {
		if c.ReadinessProbe == nil {
			c.ReadinessProbe = &corev1.Probe{}
		}
		c.ReadinessProbe.HTTPGet = &corev1.HTTPGetAction{
			Path: probe.Path, Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP,
		}
	} else {
		c.ReadinessProbe = nil
	}
	c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app", ReadOnly: true}}
}

func setService(app *v1alpha1.App, s *corev1.Service) {
	setLabels(app, s)
	s.Spec.Selector = selectorOf(app)
	if len(s.Spec.Ports) != 1 {
		s.Spec.Ports = []corev1.ServicePort{{}}
	}
	port := &s.Spec.Ports[0]
	port.Name, port.Protocol, port.Port, port.TargetPort = "http", corev1.ProtocolTCP, 80, intstr.FromString("http")
}

func setIngress(app *v1alpha1.App, i *networkingv1.Ingress) {
	setLabels(app, i)
	i.Spec.IngressClassName = app.Spec.Ingress.ClassName
	i.Spec.Rules = []networkingv1.IngressRule{{Host: app.Spec.Ingress.Host,
		IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: app.Spec.Ingress.Path, PathType: ptr.To(networkingv1.PathTypePrefix),
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
					Name: app.Name, Port: networkingv1.ServiceBackendPort{Name: "http"},
				}},
			}}},
		}}}
}

// setStatus sets the status of the App from the status of its Deployment.
func setStatus(app *v1alpha1.App, d *appsv1.Deployment) {
	s := &app.Status
	s.ObservedGeneration = app.Generation
	s.URL = "http://" + app.Spec.Ingress.Host + strings.TrimSuffix(app.Spec.Ingress.Path, "/")
	s.Selector = labels.SelectorFromSet(selectorOf(app)).String()
	s.Replicas, s.ReadyReplicas = d.Status.Replicas, d.Status.ReadyReplicas
	s.Phase = v1alpha1.AppDeploying
	status, reason, message := metav1.ConditionFalse, "RollingOut", "The newest Pods are being rolled out."
	wanted := ptr.Deref(app.Spec.Replicas, 1)
	if d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas >= wanted &&
		d.Status.AvailableReplicas >= wanted {
		s.Phase = v1alpha1.AppReady
		status = metav1.ConditionTrue
		reason = "Available"
		message = "The newest Pods are rolled out and available."
	}
	opposite := metav1.ConditionTrue
	if status == metav1.ConditionTrue {
		opposite = metav1.ConditionFalse
	}
	for _, c := range []metav1.Condition{
		{Type: "Degraded", Status: metav1.ConditionFalse, Reason: "AsExpected"},
		{Type: "Ready", Status: status, Reason: reason, Message: message},
		{Type: "Progressing", Status: opposite, Reason: reason, Message: message},
	} {
		c.ObservedGeneration = app.Generation
		meta.SetStatusCondition(&s.Conditions, c)
	}
}
