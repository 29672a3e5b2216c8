// Package v1 is the stored version of the cnat API: At runs a command at a
// time.
//
// +k8s:deepcopy-gen=package
// +groupName=cnat.programming-kubernetes.info
package v1
