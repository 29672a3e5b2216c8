// Package v1alpha1 is the windlass.dev API: App, Database, ExternalDatabase and
// Platform, which composes them and At.
//
// +k8s:deepcopy-gen=package
// +groupName=windlass.dev
package v1alpha1
