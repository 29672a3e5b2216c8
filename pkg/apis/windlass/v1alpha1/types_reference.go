package v1alpha1

// DatabaseReference names a database in the same namespace.
type DatabaseReference struct {
	// kind is Database or ExternalDatabase.
	//
	// +optional
	// +kubebuilder:default=Database
	// +kubebuilder:validation:Enum=Database;ExternalDatabase
	Kind string `json:"kind,omitempty"`

	// name is the database's. Its connection Secret is called <name>-credentials.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=241
	Name string `json:"name"`
}

// SecretReference names a Secret in the same namespace.
type SecretReference struct {
	// name is the Secret's.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
