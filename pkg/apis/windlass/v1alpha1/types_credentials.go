package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CredentialsSpec specifies when the operator rotates the credentials of a database. A rotation gives clients another
// login with a new password. The previous login works until no known client uses it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rotateEvery) || !self.rotateEvery.matches('^([0-9]{1,5}[hms]){1,3}$') || !(has(self.gracePeriod) ? self.gracePeriod : '10m').matches('^([0-9]{1,5}[hms]){1,3}$') || duration(has(self.gracePeriod) ? self.gracePeriod : '10m') < duration(self.rotateEvery)",message="gracePeriod must be shorter than rotateEvery"
type CredentialsSpec struct {
	// rotateEvery is the time between two rotations, from 1h to 87600h, for example 720h. Without it, the operator rotates
	// the credentials only when the annotation windlass.dev/rotate-credentials changes. The time starts with the last
	// rotation or, before the first rotation, with the creation of the connection Secret.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=18
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[hms]){1,3}$') && duration(self) >= duration('1h') && duration(self) <= duration('87600h')",message="rotateEvery must be a duration from 1h to 87600h in hours, minutes and seconds, such as 720h or 36h30m"
	RotateEvery *metav1.Duration `json:"rotateEvery,omitempty"`

	// gracePeriod is the minimum time for which the previous login works after a rotation, from 0s to 168h, and shorter
	// than rotateEvery. The previous login works longer if an App still runs Pods with the previous content of the
	// connection Secret. Defaults to 10m.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=18
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[hms]){1,3}$') && duration(self) <= duration('168h')",message="gracePeriod must be a duration from 0s to 168h in hours, minutes and seconds, such as 10m"
	GracePeriod *metav1.Duration `json:"gracePeriod,omitempty"`
}

// CredentialsStatus is the observed state of the credentials of a database. It is set if the spec has credentials, or
// after the first rotation.
type CredentialsStatus struct {
	// username is the login in the connection Secret: the owner, or one of its two alternate logins.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Username string `json:"username,omitempty"`

	// lastRotationTime is when the connection Secret got another login. It is absent before the first rotation.
	//
	// +optional
	LastRotationTime *metav1.Time `json:"lastRotationTime,omitempty"`

	// nextRotationTime is when the next rotation is due. It is set if the spec has rotateEvery.
	//
	// +optional
	NextRotationTime *metav1.Time `json:"nextRotationTime,omitempty"`

	// previousUsername is the login that clients used before the last rotation, while it can still log in.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	PreviousUsername string `json:"previousUsername,omitempty"`

	// waitingFor says what an unfinished rotation waits for, for example the grace period, or an App whose Pods use the
	// previous login. It is empty if no rotation is unfinished.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	WaitingFor string `json:"waitingFor,omitempty"`
}
