// Package v1 is the stored version of the cnat API, which has one kind: At runs a command at a given
// time.
//
// +k8s:deepcopy-gen=package
// +groupName=cnat.programming-kubernetes.info
package v1
