package v1alpha1

// DatabaseTLS specifies how connections to the server of a Database are encrypted.
//
// +kubebuilder:validation:XValidation:rule="!has(self.secretName) || !has(self.mode) || self.mode == 'Required'",message="secretName has no effect with mode Disabled; remove one of the two fields"
type DatabaseTLS struct {
	// mode specifies whether clients must use TLS. Required (the default) means that the server rejects every connection
	// over the network without TLS. Disabled means that the server does not offer TLS, so that anyone who can read the
	// traffic in the network of the cluster can read the data. A change does not restart PostgreSQL, and affects only new
	// connections: they fail until the clients use the changed connection Secret.
	//
	// +optional
	// +kubebuilder:default=Required
	Mode TLSMode `json:"mode,omitempty"`

	// secretName is the name of a Secret with the certificate of the server, for example a Secret that cert-manager
	// writes. It has the keys tls.crt, tls.key and ca.crt. The certificate must be valid for the name
	// <database>.<namespace>.svc, and a CA in ca.crt must have issued it. A change of the Secret takes effect without a
	// restart. By default, the operator creates a CA for this Database alone, and issues and renews the certificate.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
}

// TLSMode specifies whether clients must use TLS.
//
// +kubebuilder:validation:Enum=Required;Disabled
type TLSMode string

// TLS modes.
const (
	// TLSRequired means that the server rejects every connection over the network without TLS.
	TLSRequired TLSMode = "Required"
	// TLSDisabled means that the server does not offer TLS.
	TLSDisabled TLSMode = "Disabled"
)
