// Package v1alpha1 is version v1alpha1 of the windlass.dev API. Its kinds are App, Database, ExternalDatabase and
// Platform. The components of a Platform are Apps, Databases, ExternalDatabases and Ats.
//
// +k8s:deepcopy-gen=package
// +groupName=windlass.dev
package v1alpha1
