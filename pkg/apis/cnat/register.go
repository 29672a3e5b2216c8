// Package cnat holds what all versions of the cnat API group share.
package cnat

// GroupName is the API group of At. It is the group that users of the
// "cloud native at" tutorial operator already have, so that their manifests
// apply unchanged.
const GroupName = "cnat.programming-kubernetes.info"
