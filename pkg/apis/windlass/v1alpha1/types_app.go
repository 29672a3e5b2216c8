package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
)

// AppPhase is the phase of an App.
//
// +kubebuilder:validation:Enum=Pending;Deploying;Ready;Failed
type AppPhase string

// Phases of an App.
const (
	// AppPending means that an object that the App needs does not exist, or that the operator could not create
	// or update the Deployment and retries.
	AppPending AppPhase = "Pending"
	// AppDeploying means that Pods are being created or replaced, or that some are not available.
	AppDeploying AppPhase = "Deploying"
	// AppReady means that the newest Pods are rolled out and available.
	AppReady AppPhase = "Ready"
	// AppFailed means that a user has to act. The condition Ready says why.
	AppFailed AppPhase = "Failed"
)

// AppSpec is the desired state of an App: the Pods, and the address at which clients reach them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || (!has(self.autoscaling.targetCPUUtilizationPercentage) && (has(self.autoscaling.targetMemoryUtilizationPercentage) || (has(self.autoscaling.metrics) && self.autoscaling.metrics.size() > 0))) || (has(self.resources) && ((has(self.resources.requests) && 'cpu' in self.resources.requests) || (has(self.resources.limits) && 'cpu' in self.resources.limits)))",message="autoscaling needs resources.requests.cpu, because its target is a percentage of that request; set resources.requests.cpu, or set resources.limits.cpu, which then counts as the request"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.autoscaling.targetMemoryUtilizationPercentage) || (has(self.resources) && ((has(self.resources.requests) && 'memory' in self.resources.requests) || (has(self.resources.limits) && 'memory' in self.resources.limits)))",message="autoscaling.targetMemoryUtilizationPercentage needs resources.requests.memory, because the target is a percentage of that request; set resources.requests.memory, or set resources.limits.memory, which then counts as the request"
// +kubebuilder:validation:XValidation:rule="!has(self.port) || !has(self.ports)",message="port and ports must not both be set; to keep the port, remove port, and make an entry with name http and this port the first of ports"
// +kubebuilder:validation:XValidation:rule="!has(self.ports) || self.ports.size() > 0 || !(has(self.service) || has(self.ingress) || has(self.route) || has(self.probe))",message="an App with an empty list of ports has no Service; remove service, ingress, route and probe, or add a port"
// +kubebuilder:validation:XValidation:rule="!(has(self.ingress) || has(self.route)) || !has(self.ports) || self.ports.size() == 0 || self.ports[0].protocol == 'TCP'",message="the Ingress and the route lead to the first entry of ports, which must have protocol TCP"
// +kubebuilder:validation:XValidation:rule="!has(self.route) || !has(self.route.path) || !has(self.ports) || self.ports.size() == 0 || !has(self.ports[0].appProtocol) || self.ports[0].appProtocol != 'grpc'",message="route.path must not be set if the first entry of ports has appProtocol grpc, because a GRPCRoute has no path"
// +kubebuilder:validation:XValidation:rule="!has(self.probe) || !has(self.probes) || !has(self.probes.readiness)",message="probe and probes.readiness must not both be set; remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.probes) || !has(self.ports) || self.ports.size() > 0 || ((!has(self.probes.startup) || ((!has(self.probes.startup.httpGet) || has(self.probes.startup.httpGet.port)) && (!has(self.probes.startup.tcpSocket) || has(self.probes.startup.tcpSocket.port)) && (!has(self.probes.startup.grpc) || has(self.probes.startup.grpc.port)))) && (!has(self.probes.liveness) || ((!has(self.probes.liveness.httpGet) || has(self.probes.liveness.httpGet.port)) && (!has(self.probes.liveness.tcpSocket) || has(self.probes.liveness.tcpSocket.port)) && (!has(self.probes.liveness.grpc) || has(self.probes.liveness.grpc.port)))) && (!has(self.probes.readiness) || ((!has(self.probes.readiness.httpGet) || has(self.probes.readiness.httpGet.port)) && (!has(self.probes.readiness.tcpSocket) || has(self.probes.readiness.tcpSocket.port)) && (!has(self.probes.readiness.grpc) || has(self.probes.readiness.grpc.port)))))",message="an App with an empty list of ports has no default port; set port in each httpGet, tcpSocket and grpc of probes"
type AppSpec struct {
	// image is the container image. It must not run as root. A change replaces the Pods.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^\S+$`
	Image string `json:"image"`

	// containerName is the name of the container that runs image. podTemplate refers to the container by this name. A
	// change replaces the Pods. Defaults to app.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="containerName has lower-case letters, digits and '-', and begins and ends with a letter or a digit"
	ContainerName string `json:"containerName,omitempty"`

	// replicas is the number of Pods. 0 stops the App. The field has no effect while autoscaling is
	// set. `kubectl scale` sets this field. Defaults to 1.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// port is the TCP port on which the container listens. Port 80 of the Service leads to port. It is the short form of
	// ports with one entry, which has the name http. A change replaces the Pods. Defaults to 8080 if ports is unset.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// ports are the ports on which the container listens. The Service has a port for each entry. The Ingress and the route
	// lead to the first entry, and probes without a port use the first TCP port. If the list is empty, the App has no
	// Service. A change replaces the Pods, except a change of only servicePort or appProtocol.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, p.port == q.port && p.protocol == q.protocol))",message="two entries of ports have the same port and protocol"
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, p.protocol == q.protocol && (has(p.servicePort) ? p.servicePort : p.name == 'http' ? 80 : p.port) == (has(q.servicePort) ? q.servicePort : q.name == 'http' ? 80 : q.port)))",message="two entries of ports have the same servicePort and protocol; servicePort defaults to 80 if the name is http, and otherwise to port"
	// +listType=map
	// +listMapKey=name
	Ports []AppPort `json:"ports,omitzero"`

	// service configures the Service.
	//
	// +optional
	Service *AppService `json:"service,omitempty"`

	// command is the entry point of the container. It does not run in a shell. A change replaces the
	// Pods. Defaults to the entry point of the image.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=131072
	// +listType=atomic
	Command []string `json:"command,omitempty"`

	// args are the arguments of the entry point. A change replaces the Pods. Defaults to the arguments
	// in the image, if command is not set.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=131072
	// +listType=atomic
	Args []string `json:"args,omitempty"`

	// env are environment variables of the container. A Secret or ConfigMap that a variable refers to must exist before
	// the App starts, unless the reference is optional. A change of the content of such an object, or of this field,
	// replaces the Pods.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +listType=map
	// +listMapKey=name
	Env []corev1.EnvVar `json:"env,omitempty"`

	// envFrom are ConfigMaps and Secrets. Each of their keys becomes an environment variable of the container. These
	// objects must exist before the App starts, unless the reference is optional. A change of their content, or of this
	// field, replaces the Pods.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// config are files by name, which are mounted in the directory configPath of the container. They have
	// at most 524288 characters in total. A change replaces the Pods.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[-._a-zA-Z0-9]+$') && name.size() <= 253 && name != '.' && !name.startsWith('..'))",message="the name of a file may have at most 253 characters: letters, digits, '-', '_' and '.'; it must not be '.' or begin with '..'"
	// +kubebuilder:validation:XValidation:rule="self.map(name, self[name].size()).sum() <= 524288",message="the files of config may have at most 524288 characters in total; put larger files into the image"
	Config map[string]string `json:"config,omitempty"`

	// configPath is the directory of the container in which the files of config are mounted. A change replaces the Pods.
	// Defaults to /etc/app.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^:]+$`
	ConfigPath string `json:"configPath,omitempty"`

	// volumes are the volumes of the Pods, and their mounts in the container. A change replaces the Pods.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(v, !has(v.name) || self.exists_one(w, has(w.name) && w.name == v.name))",message="two entries of volumes have the same name"
	// +listType=map
	// +listMapKey=mountPath
	Volumes []AppVolume `json:"volumes,omitempty"`

	// ingress makes the App reachable from outside the cluster, through an Ingress. If it is unset, the
	// App has no Ingress.
	//
	// +optional
	Ingress *AppIngress `json:"ingress,omitempty"`

	// route attaches the App to Gateways of Gateway API, with an HTTPRoute, or with a GRPCRoute if the first port has
	// appProtocol grpc. The cluster needs Gateway API. If it is unset, the App has no route.
	//
	// +optional
	Route *AppRoute `json:"route,omitempty"`

	// autoscaling adjusts the number of Pods to their load, with a HorizontalPodAutoscaler. A target for the CPU or memory
	// utilization requires the request or the limit of this resource in resources. If autoscaling is unset, the number of
	// Pods is replicas.
	//
	// +optional
	Autoscaling *AppAutoscaling `json:"autoscaling,omitempty"`

	// resources are the resource requests and limits of the container. A change replaces the Pods.
	//
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty,omitzero"`

	// probe is the short form of probes.readiness with an HTTP request. Without a readiness probe, a Pod gets traffic as
	// soon as its container runs. A change replaces the Pods.
	//
	// +optional
	Probe *AppProbe `json:"probe,omitempty"`

	// probes are the startup, liveness and readiness probes of the container. A change replaces the Pods.
	//
	// +optional
	Probes *AppProbes `json:"probes,omitempty"`

	// rollout configures how new Pods replace previous Pods. A change replaces no Pods.
	//
	// +optional
	Rollout *AppRollout `json:"rollout,omitempty"`

	// shutdown configures how a Pod ends. A change replaces the Pods.
	//
	// +optional
	Shutdown *AppShutdown `json:"shutdown,omitempty"`

	// databaseRef is a reference to a database in the same namespace. The App waits for the connection Secret of the
	// database, and gets the values of the Secret in the environment variables DATABASE_URL, PGHOST, PGPORT, PGDATABASE,
	// PGUSER, PGPASSWORD and PGSSLMODE. A variable of the same name in env takes precedence. A change of the values, or of
	// this field, replaces the Pods.
	//
	// +optional
	DatabaseRef *DatabaseReference `json:"databaseRef,omitempty"`

	// serviceAccountName is the name of the ServiceAccount of the Pods. If it is unset, the Pods use the
	// default ServiceAccount of the namespace, but do not mount its token. To mount that token, set the
	// field to default. A change replaces the Pods.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// imagePullSecrets are references to Secrets in the same namespace that are used to pull the
	// image. A change of this field replaces the Pods.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(secret, secret.name != '')",message="a Secret in imagePullSecrets needs a name"
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// metadata are labels and annotations of the children, for example for cost reports. The Pods of the Deployment have
	// only the labels and annotations from podTemplate. A change replaces no Pods.
	//
	// +optional
	Metadata ChildMetadata `json:"metadata,omitempty,omitzero"`

	// podTemplate is merged into the Pod template that the operator generates, for everything that has no field of its
	// own, for example tolerations, volumes, and more containers. The container of the App is named app. A change replaces
	// the Pods.
	//
	// +optional
	PodTemplate *cnatv1.PodTemplate `json:"podTemplate,omitempty"`

	// beforeRollout is a command that runs once for each new Pod template, before any Pod is created or replaced, for
	// example a migration of the database. If the command fails, the Pods of the previous template stay until a command
	// succeeds, or until this field is removed. A change of this field alone replaces no Pods.
	//
	// +optional
	BeforeRollout *AppBeforeRollout `json:"beforeRollout,omitempty"`
}

// App is a service: Pods that run an image, an address at which clients reach them, and the objects that
// the Pods need.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=apps,singular=app,scope=Namespaced,categories=windlass
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || (self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))",optionalOldSelf=true,fieldPath=".metadata",message="the name must be valid for a Service: at most 63 characters, lower-case letters, digits and '-', beginning with a letter, and ending with a letter or a digit"
type App struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec AppSpec `json:"spec"`
	// +optional
	Status AppStatus `json:"status,omitempty,omitzero"`
}

// StatusPhase returns status.phase.
func (a *App) StatusPhase() string { return string(a.Status.Phase) }

// StatusConditions returns a pointer to status.conditions, which the engine sets.
func (a *App) StatusConditions() *[]metav1.Condition { return &a.Status.Conditions }

// StatusObservedGeneration returns a pointer to status.observedGeneration, which the engine sets.
func (a *App) StatusObservedGeneration() *int64 { return &a.Status.ObservedGeneration }

// AppList is a list of Apps.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type AppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []App `json:"items"`
}
