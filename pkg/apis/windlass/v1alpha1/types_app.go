package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AppPhase is where an App stands.
//
// +kubebuilder:validation:Enum=Pending;Deploying;Ready;Failed
type AppPhase string

// Phases of an App.
const (
	// AppPending: something that the App needs is not there yet.
	AppPending AppPhase = "Pending"
	// AppDeploying: its Pods are being made or replaced.
	AppDeploying AppPhase = "Deploying"
	// AppReady: the newest Pods are rolled out and available.
	AppReady AppPhase = "Ready"
	// AppFailed: a user must look at it; the condition Ready says why.
	AppFailed AppPhase = "Failed"
)

// AppSpec says what to run and how it is reached.
//
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || (has(self.resources) && ((has(self.resources.requests) && 'cpu' in self.resources.requests) || (has(self.resources.limits) && 'cpu' in self.resources.limits))) || (oldSelf.hasValue() && has(oldSelf.value().autoscaling) && !(has(oldSelf.value().resources) && ((has(oldSelf.value().resources.requests) && 'cpu' in oldSelf.value().resources.requests) || (has(oldSelf.value().resources.limits) && 'cpu' in oldSelf.value().resources.limits))))",optionalOldSelf=true,message="autoscaling needs resources.requests.cpu, since it aims at a share of that: set it, or resources.limits.cpu, from which Kubernetes takes it"
type AppSpec struct {
	// image is the container image. It must run as a user other than root.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^\S+$`
	Image string `json:"image"`

	// replicas is how many Pods run. 0 stops the App. Without effect while
	// autoscaling is set. `kubectl scale` sets it.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// port is the TCP port that the container listens on. The Service has port 80
	// for it.
	//
	// +optional
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// command is the entry point. Defaults to the image's.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=131072
	// +listType=atomic
	Command []string `json:"command,omitempty"`

	// args are the arguments of the entry point. Defaults to the image's.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=131072
	// +listType=atomic
	Args []string `json:"args,omitempty"`

	// env are environment variables. A Secret or ConfigMap that one names must
	// be there before the App starts, unless it is optional; a change of its
	// content replaces the Pods.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +listType=map
	// +listMapKey=name
	Env []corev1.EnvVar `json:"env,omitempty"`

	// envFrom are ConfigMaps and Secrets all of whose keys become environment
	// variables. What holds for those that env names holds for these.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// config are files, by name, that the container finds in /etc/app, with 524288
	// characters in total at most. A change replaces the Pods.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[-._a-zA-Z0-9]+$') && name.size() <= 253 && name != '.' && !name.startsWith('..'))",message="the name of a file may have letters, digits, '-', '_' and '.', 253 characters at most, and not begin with '..'"
	// +kubebuilder:validation:XValidation:rule="self.map(name, self[name].size()).sum() <= 524288",message="the files of config may have 524288 characters in total: put larger ones into the image or on a volume"
	Config map[string]string `json:"config,omitempty"`

	// ingress makes the App reachable from outside of the cluster.
	//
	// +optional
	Ingress *AppIngress `json:"ingress,omitempty"`

	// autoscaling lets the number of Pods follow their use of CPU. It needs
	// resources.requests.cpu, or resources.limits.cpu, which then counts as the
	// request.
	//
	// +optional
	Autoscaling *AppAutoscaling `json:"autoscaling,omitempty"`

	// resources are the container's requests and limits.
	//
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty,omitzero"`

	// probe asks each Pod whether it can serve. Without it a Pod serves as soon
	// as its container runs.
	//
	// +optional
	Probe *AppProbe `json:"probe,omitempty"`

	// databaseRef names a database of this namespace. The App waits for its
	// connection Secret and finds it in the environment: DATABASE_URL, and
	// PGHOST, PGPORT, PGDATABASE, PGUSER and PGPASSWORD.
	//
	// +optional
	DatabaseRef *DatabaseReference `json:"databaseRef,omitempty"`

	// serviceAccountName is the account that the Pods run as. Defaults to the
	// namespace's default account.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// imagePullSecrets name Secrets in the same namespace with which the image
	// is pulled.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(secret, secret.name != '')",message="a Secret in imagePullSecrets needs a name"
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// AppIngress is how the App is reached from outside.
type AppIngress struct {
	// host is the DNS name, with a wildcard as its first label at most.
	//
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Host string `json:"host"`

	// path is the prefix of the paths that lead here.
	//
	// +optional
	// +kubebuilder:default=/
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^\s]*$`
	// +kubebuilder:validation:XValidation:rule="!self.contains('//') && !self.contains('/../') && !self.contains('/./') && !self.endsWith('/..') && !self.endsWith('/.')",message="path may not have empty segments, '.' or '..'"
	Path string `json:"path,omitempty"`

	// className is the IngressClass. Defaults to the cluster's when the Ingress is
	// made; when it is taken out later, the Ingress keeps the one it has.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClassName *string `json:"className,omitempty"`

	// tlsSecretName is the Secret with the certificate for host. It may come
	// later, as from a certificate controller. Without it the App is reached
	// without TLS.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TLSSecretName string `json:"tlsSecretName,omitempty"`
}

// AppProbe asks by HTTP.
type AppProbe struct {
	// path is what is asked for, on spec.port. An answer from 200 to 399 means
	// that the Pod can serve.
	//
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^\s]*$`
	Path string `json:"path"`
}

// AppStatus is what was last seen of the App.
type AppStatus struct {
	// observedGeneration is the metadata.generation that this status speaks of.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is Pending, Deploying, Ready or Failed.
	//
	// +optional
	Phase AppPhase `json:"phase,omitempty"`

	// conditions are Ready (the newest Pods are rolled out and available),
	// Progressing, Degraded, and Stalled (only while True).
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// replicas is the number of Pods. While Pods are being replaced it is brought
	// up to date when the phase or a reason changes.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of Pods that can serve, brought up to date with
	// replicas.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyReplicas int32 `json:"readyReplicas"`

	// selector selects the Pods, for the scale subresource.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Selector string `json:"selector,omitempty"`

	// url is where the App is reached: from outside if it has an ingress, else in
	// the cluster.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`
}

// App is a service: Pods, the address that they are reached at, and what they
// need to run.
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
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || (self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))",optionalOldSelf=true,message="the name must be one of a Service: 63 characters at most, lower-case letters, digits and '-', beginning with a letter"
type App struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec AppSpec `json:"spec"`
	// +optional
	Status AppStatus `json:"status,omitempty,omitzero"`
}

// StatusConditions points at the conditions, for the engine to set.
func (a *App) StatusConditions() *[]metav1.Condition { return &a.Status.Conditions }

// StatusObservedGeneration points at the observed generation, for the engine to
// set.
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
