// Package v1alpha1 is the version of the cnat API that the tutorial operator "cloud native at" serves. The API server
// serves it by conversion, and never stores it.
//
// +k8s:deepcopy-gen=package
// +groupName=cnat.programming-kubernetes.info
package v1alpha1
