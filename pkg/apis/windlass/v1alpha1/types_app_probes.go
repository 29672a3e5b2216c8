package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// AppProbe is a readiness probe by HTTP.
type AppProbe struct {
	// path is the path of the HTTP request to the first TCP port of the App. A Pod gets traffic while the status code of the
	// response is from 200 to 399.
	//
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^\s]*$`
	Path string `json:"path"`
}

// AppProbes are the probes of the container of an App.
//
// +kubebuilder:validation:XValidation:rule="(!has(self.startup) || !has(self.startup.successThreshold) || self.startup.successThreshold == 1) && (!has(self.liveness) || !has(self.liveness.successThreshold) || self.liveness.successThreshold == 1)",message="successThreshold of a startup or liveness probe must be 1"
type AppProbes struct {
	// startup is the startup probe. The other probes begin after the startup probe has succeeded. If the startup probe
	// fails, the kubelet restarts the container.
	//
	// +optional
	Startup *AppContainerProbe `json:"startup,omitempty"`

	// liveness is the liveness probe. If the liveness probe fails, the kubelet restarts the container.
	//
	// +optional
	Liveness *AppContainerProbe `json:"liveness,omitempty"`

	// readiness is the readiness probe. A Pod gets traffic only while the readiness probe succeeds.
	//
	// +optional
	Readiness *AppContainerProbe `json:"readiness,omitempty"`
}

// AppContainerProbe is a probe of a container, as in a Pod, but port defaults to the first TCP port of the App.
//
// +kubebuilder:validation:XValidation:rule="[has(self.httpGet), has(self.tcpSocket), has(self.grpc), has(self.exec)].exists_one(set, set)",message="a probe needs exactly one of httpGet, tcpSocket, grpc and exec"
type AppContainerProbe struct {
	// httpGet sends an HTTP request. A status code from 200 to 399 is a success.
	//
	// +optional
	HTTPGet *AppHTTPGet `json:"httpGet,omitempty"`

	// tcpSocket opens a TCP connection.
	//
	// +optional
	TCPSocket *AppTCPSocket `json:"tcpSocket,omitempty"`

	// grpc calls the gRPC health service.
	//
	// +optional
	GRPC *AppGRPC `json:"grpc,omitempty"`

	// exec runs a command in the container. Exit code 0 is a success.
	//
	// +optional
	Exec *AppExec `json:"exec,omitempty"`

	// initialDelaySeconds is the time from the start of the container to the first probe, in seconds. Defaults to 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`

	// periodSeconds is the time between two probes, in seconds. Defaults to 10.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`

	// timeoutSeconds is the time until a probe without a response counts as failed, in seconds. Defaults to 1.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// failureThreshold is the number of consecutive failures after which the probe has failed. Defaults to 3.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	FailureThreshold int32 `json:"failureThreshold,omitempty"`

	// successThreshold is the number of consecutive successes after which the readiness probe has succeeded. For the
	// startup and the liveness probe, successThreshold must be 1. Defaults to 1.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	SuccessThreshold int32 `json:"successThreshold,omitempty"`
}

// AppHTTPGet is an HTTP request.
type AppHTTPGet struct {
	// path is the path of the request. Defaults to /.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^\s]*$`
	Path string `json:"path,omitempty"`

	// port is the number or the name of a port. Defaults to the first TCP port of the App.
	//
	// +optional
	Port *intstr.IntOrString `json:"port,omitempty"`

	// scheme is HTTP or HTTPS. Defaults to HTTP.
	//
	// +optional
	// +kubebuilder:validation:Enum=HTTP;HTTPS
	Scheme corev1.URIScheme `json:"scheme,omitempty"`

	// httpHeaders are the headers of the request.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	HTTPHeaders []corev1.HTTPHeader `json:"httpHeaders,omitempty"`
}

// AppTCPSocket is a TCP connection.
type AppTCPSocket struct {
	// port is the number or the name of a port. Defaults to the first TCP port of the App.
	//
	// +optional
	Port *intstr.IntOrString `json:"port,omitempty"`
}

// AppGRPC is a call of the gRPC health service.
type AppGRPC struct {
	// port is the number of a port. Defaults to the first TCP port of the App.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// service is the name of the service in the request. Defaults to the empty string.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Service string `json:"service,omitempty"`
}

// AppExec is a command.
type AppExec struct {
	// command is the command and its arguments. It does not run in a shell.
	//
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=32768
	// +listType=atomic
	Command []string `json:"command"`
}
