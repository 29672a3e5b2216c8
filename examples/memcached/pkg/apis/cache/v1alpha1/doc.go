// Package v1alpha1 is the cache.example.com API.
//
// +k8s:deepcopy-gen=package
// +groupName=cache.example.com
package v1alpha1
