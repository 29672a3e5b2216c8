package framework

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// ConfigOfEverything is the name of the ConfigMap of the App shop with the spec of EverythingOfApp.
const ConfigOfEverything = "shop-9559317e37d321db"

// EverythingOfApp returns a spec that uses every field of App except short forms: port, probe, and ingress.host.
// CreateReferences creates the objects that an App with this spec needs.
func EverythingOfApp() v1alpha1.AppSpec {
	spec := v1alpha1.AppSpec{
		Image: "shop:1", ContainerName: "shop", Replicas: ptr.To[int32](3),
		Command: []string{"/shop"}, Args: []string{"--listen=:9000"},
		Env: []corev1.EnvVar{
			{Name: "LEVEL", Value: "info"},
			{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "payment"}, Key: "key"}}},
		},
		EnvFrom: []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
			{
				SecretRef: &corev1.SecretEnvSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "extras"}, Optional: ptr.To(true),
				},
			},
		},
		Config:     map[string]string{"shop.toml": "currency = \"EUR\"\n", "empty": ""},
		ConfigPath: "/etc/shop",
		Volumes: []v1alpha1.AppVolume{
			{MountPath: "/var/cache", EmptyDir: &v1alpha1.AppEmptyDir{SizeLimit: ptr.To(resource.MustParse("64Mi"))}},
			{MountPath: "/etc/payment", Name: "payment", Secret: &v1alpha1.AppFiles{Name: "payment"}},
			{MountPath: "/etc/settings", ReadOnly: true, ConfigMap: &v1alpha1.AppFiles{Name: "settings", Reload: true}},
		},
		Ingress: &v1alpha1.AppIngress{
			Hosts: []string{"shop.example.com", "*.shop.example.com"}, Path: "/shop",
			PathType: networkingv1.PathTypeExact, Annotations: map[string]string{"example.com/body-size": "8m"},
			ClassName: ptr.To("nginx"), TLSSecretName: "shop-tls",
		},
		Route: &v1alpha1.AppRoute{
			ParentRefs: []v1alpha1.AppParentRef{
				{Kind: "Gateway", Name: "public", Namespace: "gateways", SectionName: "https"},
				{Kind: "ListenerSet", Name: "shop"},
			},
			Hostnames: []string{"shop.example.com", "*.shop.example.com"}, Path: "/shop",
		},
		Autoscaling: everyAutoscaling(),
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("0.1000001"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("134217728")},
		},
		DatabaseRef:        &v1alpha1.DatabaseReference{Kind: "Database", Name: "shop"},
		ServiceAccountName: "shop",
		ImagePullSecrets:   []corev1.LocalObjectReference{{Name: "registry"}},
		Metadata:           everyMetadata(),
		PodTemplate: &cnatv1.PodTemplate{
			Metadata: cnatv1.PodTemplateMetadata{
				Labels: map[string]string{"team": "shop"}, Annotations: map[string]string{"example.com/scrape": "true"},
			},
			Spec: &runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"shop","workingDir":"/shop"}],` +
				`"tolerations":[{"key":"batch","operator":"Exists"}]}`)},
		},
		BeforeRollout: &v1alpha1.AppBeforeRollout{
			Command: []string{"/migrate"}, Args: []string{"--wait"}, Image: "migrations:1",
		},
	}
	setServing(&spec)
	return spec
}

// everyAutoscaling returns an autoscaler with all targets.
func everyAutoscaling() *v1alpha1.AppAutoscaling {
	return &v1alpha1.AppAutoscaling{
		MinReplicas: ptr.To[int32](2), MaxReplicas: 5, TargetCPUUtilizationPercentage: ptr.To[int32](70),
		TargetMemoryUtilizationPercentage: ptr.To[int32](90), Metrics: []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: "orders"}, Target: autoscalingv2.MetricTarget{
					Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse("0.5")),
				},
			},
		}},
		Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: ptr.To[int32](60),
		}},
	}
}

// setServing sets the fields of a spec that say how the Pods serve requests.
func setServing(spec *v1alpha1.AppSpec) {
	spec.Ports = []v1alpha1.AppPort{
		{Name: "http", Port: 9000, Protocol: corev1.ProtocolTCP, AppProtocol: ptr.To("http")},
		{Name: "metrics", Port: 9090, Protocol: corev1.ProtocolTCP, ServicePort: 9091},
		{Name: "events", Port: 5353, Protocol: corev1.ProtocolUDP},
	}
	spec.Service = &v1alpha1.AppService{
		Annotations: map[string]string{"example.com/owner": "shop"}, Type: corev1.ServiceTypeClusterIP,
		SessionAffinity: corev1.ServiceAffinityClientIP, TrafficDistribution: ptr.To("PreferSameZone"),
	}
	spec.Probes = &v1alpha1.AppProbes{
		Startup:   &v1alpha1.AppContainerProbe{Exec: &v1alpha1.AppExec{Command: []string{"/started"}}, FailureThreshold: 30},
		Liveness:  &v1alpha1.AppContainerProbe{TCPSocket: &v1alpha1.AppTCPSocket{}, PeriodSeconds: 20},
		Readiness: &v1alpha1.AppContainerProbe{HTTPGet: &v1alpha1.AppHTTPGet{Path: "/healthz"}, TimeoutSeconds: 2},
	}
	spec.Rollout = &v1alpha1.AppRollout{
		Strategy: appsv1.RollingUpdateDeploymentStrategyType, MaxSurge: ptr.To(intstr.FromInt32(1)),
		MaxUnavailable: ptr.To(intstr.FromString("10%")), MinReadySeconds: ptr.To[int32](1),
		ProgressDeadlineSeconds: ptr.To[int32](300), RevisionHistoryLimit: ptr.To[int32](5),
	}
	spec.Shutdown = &v1alpha1.AppShutdown{DelaySeconds: ptr.To[int64](10), GracePeriodSeconds: ptr.To[int64](20)}
}

// ProbedApp returns a spec with an image and a readiness probe. With a probe, the Pods of the App are available as soon
// as they are ready. The simulated node reports that they are ready immediately.
func ProbedApp(image string) v1alpha1.AppSpec {
	return v1alpha1.AppSpec{Image: image, Probe: &v1alpha1.AppProbe{Path: "/"}}
}

// CreateReferences creates the Secrets, the ConfigMap and the ServiceAccount that an App with the spec of
// EverythingOfApp needs.
func (w *Clients) CreateReferences(t *testing.T, namespace string) {
	t.Helper()
	for name, data := range map[string]string{"payment": "key", "shop-credentials": "uri"} {
		w.CreateSecret(t, namespace, name, map[string]string{data: "x"})
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"A": "a"}}
	if _, err := w.Kube.CoreV1().ConfigMaps(namespace).Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating a ConfigMap: %v", err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if _, err := w.Kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account,
		metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating a service account: %v", err)
	}
}

// CreateSecret creates a Secret with the given data.
func (w *Clients) CreateSecret(t *testing.T, namespace, name string, data map[string]string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
	if _, err := w.Kube.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating Secret %s: %v", name, err)
	}
}

// CreateApp creates an App.
func (w *Clients) CreateApp(t *testing.T, namespace, name string, spec v1alpha1.AppSpec) *v1alpha1.App {
	t.Helper()
	app := &v1alpha1.App{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"team": "storefront"},
		}, Spec: spec,
	}
	app, err := w.Windlass.WindlassV1alpha1().Apps(namespace).Create(t.Context(), app, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating App %s/%s: %v", namespace, name, err)
	}
	return app
}

// UpdateApp changes an App, and returns the updated object.
func (w *Clients) UpdateApp(t *testing.T, namespace, name string, change func(*v1alpha1.App)) *v1alpha1.App {
	t.Helper()
	return update(t, w.Windlass.WindlassV1alpha1().Apps(namespace), name, change)
}

// AppWith waits until the status of an App reflects its newest generation, and wanted returns true. It returns the
// App. what describes the wanted state in the message of a failure.
func (w *Clients) AppWith(t *testing.T, namespace, name, what string, wanted func(*v1alpha1.App) bool) *v1alpha1.App {
	t.Helper()
	return with(t, w.Windlass.WindlassV1alpha1().Apps(namespace), name, what, wanted)
}

// AppIn waits until an App has the given phase for its newest generation.
func (w *Clients) AppIn(t *testing.T, namespace, name string, phase v1alpha1.AppPhase) *v1alpha1.App {
	t.Helper()
	return w.AppWith(t, namespace, name, string(phase), func(app *v1alpha1.App) bool { return app.Status.Phase == phase })
}

// AppReason waits until the condition Ready of an App has the given reason for the newest generation.
func (w *Clients) AppReason(t *testing.T, namespace, name, reason string) *v1alpha1.App {
	t.Helper()
	return w.AppWith(t, namespace, name, reason, readyFor[*v1alpha1.App](reason))
}
