// Package v1alpha1 is the windlass.dev API: App, Database, ExternalDatabase, and Platform, whose
// components are objects of these kinds and Ats.
//
// +k8s:deepcopy-gen=package
// +groupName=windlass.dev
package v1alpha1
