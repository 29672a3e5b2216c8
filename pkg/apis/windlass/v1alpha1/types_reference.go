package v1alpha1

// DatabaseReference is a reference to a Database or an ExternalDatabase in the same namespace.
type DatabaseReference struct {
	// kind is the kind of the database: Database (the default) or ExternalDatabase.
	//
	// +optional
	// +kubebuilder:default=Database
	// +kubebuilder:validation:Enum=Database;ExternalDatabase
	Kind string `json:"kind,omitempty"`

	// name is the name of the database. Its connection Secret is called <name>-credentials.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=241
	Name string `json:"name"`
}

// SecretReference is a reference to a Secret in the same namespace.
type SecretReference struct {
	// name is the name of the Secret.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
