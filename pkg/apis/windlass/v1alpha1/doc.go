// Package v1alpha1 is the windlass.dev API: App.
//
// +k8s:deepcopy-gen=package
// +groupName=windlass.dev
package v1alpha1
