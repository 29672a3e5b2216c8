package framework

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
)

// ChangesOfApp maps the JSON name of each mutable field to changes of the spec that EverythingOfApp returns.
var ChangesOfApp = map[string][]func(*v1alpha1.AppSpec){
	"metadata": {
		func(s *v1alpha1.AppSpec) {
			s.Metadata = v1alpha1.ChildMetadata{
				Labels:      map[string]v1alpha1.LabelValue{"cost-centre": "4712"},
				Annotations: map[string]v1alpha1.AnnotationValue{"example.com/else": ""},
			}
		},
		func(s *v1alpha1.AppSpec) { s.Metadata = v1alpha1.ChildMetadata{} },
	},
	"image": {func(s *v1alpha1.AppSpec) { s.Image = "other:1" }},
	"replicas": {
		func(s *v1alpha1.AppSpec) { s.Replicas = ptr.To[int32](1) }, func(s *v1alpha1.AppSpec) {
			s.Autoscaling, s.Replicas = nil, ptr.To[int32](1)
		},
	},
	"port": {func(s *v1alpha1.AppSpec) { s.Port, s.Ports = 9001, nil }},
	"ports": {
		func(s *v1alpha1.AppSpec) {
			udp := v1alpha1.AppPort{Name: "quic", Port: 9000, ServicePort: 80, Protocol: corev1.ProtocolUDP}
			s.Port, s.Ports = 0, []v1alpha1.AppPort{{Name: "http", Port: 9000, Protocol: corev1.ProtocolTCP}, udp}
		},
		func(s *v1alpha1.AppSpec) { // another name for a port
			s.Port, s.Ports = 0, []v1alpha1.AppPort{
				{Name: "metrics", Port: 9090, Protocol: corev1.ProtocolTCP},
				{Name: "web", Port: 9000, Protocol: corev1.ProtocolTCP, ServicePort: 80},
			}
		},
		func(s *v1alpha1.AppSpec) {
			s.Port, s.Ports, s.Service, s.Ingress, s.Route = 0, []v1alpha1.AppPort{}, nil, nil, nil
			s.Probe, s.Probes = nil, nil
		},
	},
	"service": {
		func(s *v1alpha1.AppSpec) {
			if s.Service != nil {
				s.Service.Annotations = map[string]string{"example.com/team": "else"}
			}
		},
		func(s *v1alpha1.AppSpec) { s.Service = nil },
	},
	"command": {
		func(s *v1alpha1.AppSpec) { s.Command = []string{"/other", "x"} }, func(s *v1alpha1.AppSpec) { s.Command = nil },
	},
	"args": {func(s *v1alpha1.AppSpec) { s.Args = []string{"--other"} }, func(s *v1alpha1.AppSpec) { s.Args = nil }},
	"env": {
		func(s *v1alpha1.AppSpec) { s.Env[0].Value = "debug" },
		func(s *v1alpha1.AppSpec) { s.Env = append(s.Env, corev1.EnvVar{Name: "MORE"}) },
		func(s *v1alpha1.AppSpec) { s.Env[0], s.Env[1] = s.Env[1], s.Env[0] },
		func(s *v1alpha1.AppSpec) { s.Env = s.Env[1:] },
		func(s *v1alpha1.AppSpec) { s.Env = nil },
	},
	"envFrom": {func(s *v1alpha1.AppSpec) { s.EnvFrom = s.EnvFrom[:1] }, func(s *v1alpha1.AppSpec) { s.EnvFrom = nil }},
	"config": {
		func(s *v1alpha1.AppSpec) { s.Config = map[string]string{"shop.toml": "changed"} },
		func(s *v1alpha1.AppSpec) { s.Config = nil },
		func(s *v1alpha1.AppSpec) { delete(s.Config, "empty") },
	},
	"volumes": {
		func(s *v1alpha1.AppSpec) {
			s.Volumes = []v1alpha1.AppVolume{
				{MountPath: "/data", Name: "data", Claim: &v1alpha1.AppClaim{
					Size: resource.MustParse("1Gi"), DeletionPolicy: v1alpha1.DeletionDelete,
				}},
				{MountPath: "/etc/settings", ConfigMap: &v1alpha1.AppFiles{Name: "settings"}},
			}
		},
		func(s *v1alpha1.AppSpec) { s.Volumes = nil },
	},
	"configPath": {func(s *v1alpha1.AppSpec) { s.ConfigPath = "" }},
	"ingress": {
		func(s *v1alpha1.AppSpec) {
			if len(s.Ports) > 0 || s.Port != 0 {
				s.Ingress = &v1alpha1.AppIngress{Host: "else.example.com", ClassName: ptr.To("else")}
			}
		},
		func(s *v1alpha1.AppSpec) { s.Ingress = nil },
	},
	"route": {
		func(s *v1alpha1.AppSpec) {
			if s.Route != nil {
				s.Route = &v1alpha1.AppRoute{ParentRefs: []v1alpha1.AppParentRef{{Kind: "Gateway", Name: "internal"}}}
			}
		},
		func(s *v1alpha1.AppSpec) { // a GRPCRoute
			if s.Route != nil && len(s.Ports) > 0 && s.Ports[0].Protocol == corev1.ProtocolTCP {
				s.Route.Path, s.Ports[0].AppProtocol = "", ptr.To("grpc")
			}
		},
		func(s *v1alpha1.AppSpec) { s.Route = nil },
	},
	"autoscaling": {
		func(s *v1alpha1.AppSpec) { s.Autoscaling = &v1alpha1.AppAutoscaling{MaxReplicas: 9} },
		func(s *v1alpha1.AppSpec) {
			s.Autoscaling.TargetCPUUtilizationPercentage, s.Autoscaling.Metrics, s.Autoscaling.Behavior = nil, nil, nil
		},
		func(s *v1alpha1.AppSpec) { s.Autoscaling = nil },
	},
	"resources": {
		func(s *v1alpha1.AppSpec) {
			s.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1.5")}
		},
		func(s *v1alpha1.AppSpec) { s.Resources, s.Autoscaling = corev1.ResourceRequirements{}, nil },
	},
	"containerName": {
		func(s *v1alpha1.AppSpec) { renameContainer(s, "else") },
		func(s *v1alpha1.AppSpec) { renameContainer(s, "") },
	},
	"probe": {func(s *v1alpha1.AppSpec) {
		if s.Probes != nil {
			s.Probes.Readiness, s.Probe = nil, &v1alpha1.AppProbe{Path: "/else"}
		}
	}},
	"probes": {
		func(s *v1alpha1.AppSpec) {
			if s.Probes != nil {
				s.Probes.Startup, s.Probes.Liveness = nil, &v1alpha1.AppContainerProbe{
					HTTPGet: &v1alpha1.AppHTTPGet{Port: ptr.To(intstr.FromString("metrics"))},
				}
			}
		},
		func(s *v1alpha1.AppSpec) { s.Probe, s.Probes = nil, nil },
	},
	"rollout": {
		func(s *v1alpha1.AppSpec) {
			s.Rollout = &v1alpha1.AppRollout{Strategy: appsv1.RecreateDeploymentStrategyType}
		},
		func(s *v1alpha1.AppSpec) { s.Rollout = nil },
	},
	"shutdown": {
		func(s *v1alpha1.AppSpec) { s.Shutdown = &v1alpha1.AppShutdown{DelaySeconds: ptr.To[int64](0)} },
		func(s *v1alpha1.AppSpec) { s.Shutdown = nil },
	},
	"databaseRef":        {func(s *v1alpha1.AppSpec) { s.DatabaseRef = nil }},
	"serviceAccountName": {func(s *v1alpha1.AppSpec) { s.ServiceAccountName = "" }},
	"imagePullSecrets": {
		func(s *v1alpha1.AppSpec) { s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "else"}} },
		func(s *v1alpha1.AppSpec) { s.ImagePullSecrets = nil },
	},
	"podTemplate": {
		func(s *v1alpha1.AppSpec) {
			s.PodTemplate.Metadata = cnatv1.PodTemplateMetadata{}
			s.PodTemplate.Spec.Raw = []byte(`{"containers":[{"name":"` + cmp.Or(s.ContainerName, "app") +
				`","readinessProbe":{"periodSeconds":3}},` +
				`{"name":"proxy","image":"proxy:1"}],"securityContext":{"runAsUser":1000},"hostname":null}`)
		},
		func(s *v1alpha1.AppSpec) { s.PodTemplate.Spec = nil },
		func(s *v1alpha1.AppSpec) { s.PodTemplate = nil },
	},
	"beforeRollout": {
		func(s *v1alpha1.AppSpec) { s.BeforeRollout = &v1alpha1.AppBeforeRollout{Args: []string{"--fast"}} },
		func(s *v1alpha1.AppSpec) { s.BeforeRollout = nil },
	},
}

// renameContainer changes containerName, and the name of this container in podTemplate.
func renameContainer(s *v1alpha1.AppSpec, name string) {
	if s.PodTemplate != nil && s.PodTemplate.Spec != nil {
		was, is := cmp.Or(s.ContainerName, "app"), cmp.Or(name, "app")
		text := strings.ReplaceAll(string(s.PodTemplate.Spec.Raw), `{"name":"`+was+`"`, `{"name":"`+is+`"`)
		s.PodTemplate.Spec = &runtime.RawExtension{Raw: []byte(text)}
	}
	s.ContainerName = name
}

// ChangesOfDatabase maps the JSON name of each mutable field to changes of the spec that EverythingOfDatabase returns.
var ChangesOfDatabase = map[string][]func(*v1alpha1.DatabaseSpec){
	"backup": {
		func(s *v1alpha1.DatabaseSpec) { s.Backup.Keep = 3 },
		func(s *v1alpha1.DatabaseSpec) { s.Backup.PodTemplate = nil },
		func(s *v1alpha1.DatabaseSpec) { s.Backup = nil },
	},
	"podTemplate": {
		func(s *v1alpha1.DatabaseSpec) {
			s.PodTemplate.Spec = nil
			s.PodTemplate.Metadata.Labels = map[string]string{"team": "else"}
		},
		func(s *v1alpha1.DatabaseSpec) { s.PodTemplate = nil },
	},
	"metadata": {
		func(s *v1alpha1.DatabaseSpec) { s.Metadata = v1alpha1.ChildMetadata{} },
	},
	"image": {
		func(s *v1alpha1.DatabaseSpec) { s.Image = "postgres:17.7" }, func(s *v1alpha1.DatabaseSpec) { s.Image = "" },
	},
	"storage": {
		func(s *v1alpha1.DatabaseSpec) { s.Storage.Size = resource.MustParse("2Gi") },
		func(s *v1alpha1.DatabaseSpec) { s.Storage.MaxSize = nil },
	},
	"databaseName": {
		func(s *v1alpha1.DatabaseSpec) { s.DatabaseName = "else" }, func(s *v1alpha1.DatabaseSpec) { s.DatabaseName = "" },
	},
	"owner": {func(s *v1alpha1.DatabaseSpec) { s.Owner = `o'"else` }, func(s *v1alpha1.DatabaseSpec) { s.Owner = "" }},
	"ownerAttributes": {
		func(s *v1alpha1.DatabaseSpec) { s.OwnerAttributes = []v1alpha1.OwnerAttribute{v1alpha1.OwnerCreateDB} },
		func(s *v1alpha1.DatabaseSpec) { s.OwnerAttributes = nil },
	},
	"parameters": {
		func(s *v1alpha1.DatabaseSpec) {
			s.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "9MB", "max_connections": "9"}
		},
		func(s *v1alpha1.DatabaseSpec) { s.Parameters = nil },
	},
	"resources": {
		func(s *v1alpha1.DatabaseSpec) {
			s.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1.5")}
		},
		func(s *v1alpha1.DatabaseSpec) { s.Resources = corev1.ResourceRequirements{} },
	},
	"credentials": {
		func(s *v1alpha1.DatabaseSpec) {
			s.Credentials = &v1alpha1.CredentialsSpec{RotateEvery: &metav1.Duration{Duration: 240 * time.Hour}}
		},
		func(s *v1alpha1.DatabaseSpec) { s.Credentials = nil },
	},
	// Without TLS, the Secret with the certificate stays, because the operator may not delete Secrets. A Database that is
	// created without TLS has no such Secret.
	"tls": {func(s *v1alpha1.DatabaseSpec) { s.TLS = v1alpha1.DatabaseTLS{} }},
	"updatePolicy": {
		func(s *v1alpha1.DatabaseSpec) { s.UpdatePolicy = v1alpha1.UpdateManual }, func(s *v1alpha1.DatabaseSpec) {
			s.UpdatePolicy = ""
		},
	},
	"deletionPolicy": {
		func(s *v1alpha1.DatabaseSpec) { s.DeletionPolicy = v1alpha1.DeletionRetain }, func(s *v1alpha1.DatabaseSpec) {
			s.DeletionPolicy = ""
		},
	},
}

// ChangesOfExternalDatabase maps the JSON name of each mutable field to changes of the spec that
// EverythingOfExternalDatabase returns.
var ChangesOfExternalDatabase = map[string][]func(*v1alpha1.ExternalDatabaseSpec){
	"metadata": {
		func(s *v1alpha1.ExternalDatabaseSpec) { s.Metadata = v1alpha1.ChildMetadata{} },
	},
	"connectionSecretRef": {func(s *v1alpha1.ExternalDatabaseSpec) { s.ConnectionSecretRef.Name = "other" }},
	"extensions": {
		func(s *v1alpha1.ExternalDatabaseSpec) { s.Extensions = []v1alpha1.ExtensionName{"citext", "pgcrypto"} },
		func(s *v1alpha1.ExternalDatabaseSpec) { s.Extensions = nil },
	},
	"deletionPolicy": {
		func(s *v1alpha1.ExternalDatabaseSpec) { s.DeletionPolicy = v1alpha1.DeletionRetain },
		func(s *v1alpha1.ExternalDatabaseSpec) { s.DeletionPolicy = "" },
	},
	"credentials": {
		func(s *v1alpha1.ExternalDatabaseSpec) {
			s.Credentials = &v1alpha1.CredentialsSpec{RotateEvery: &metav1.Duration{Duration: 240 * time.Hour}}
		},
		func(s *v1alpha1.ExternalDatabaseSpec) { s.Credentials = nil },
	},
}

// ChangesOfPlatform maps the JSON name of each mutable field to changes of the spec that EverythingOfPlatform returns.
var ChangesOfPlatform = map[string][]func(*v1alpha1.PlatformSpec){
	"components": {
		func(s *v1alpha1.PlatformSpec) { s.Components[WebComponent].App.Image = "other:1" },
		func(s *v1alpha1.PlatformSpec) { s.Components[WebComponent].App.Config = nil },
		func(s *v1alpha1.PlatformSpec) { s.Components[DatabaseComponent].Database.Parameters = nil },
		func(s *v1alpha1.PlatformSpec) { s.Components[OutsideComponent].ExternalDatabase.Extensions = nil },
		func(s *v1alpha1.PlatformSpec) { s.Components[WebComponent].DependsOn = nil },
		func(s *v1alpha1.PlatformSpec) { s.Components[TaskComponent].ManagementState = v1alpha1.Removed },
		func(s *v1alpha1.PlatformSpec) { s.Components = s.Components[:TaskComponent] },
		func(s *v1alpha1.PlatformSpec) { slices.Reverse(s.Components) },
	},
}
