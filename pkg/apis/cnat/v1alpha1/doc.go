// Package v1alpha1 is the version of the cnat API that users of the original
// operator have. It is served and converted, never stored.
//
// +k8s:deepcopy-gen=package
// +groupName=cnat.programming-kubernetes.info
package v1alpha1
