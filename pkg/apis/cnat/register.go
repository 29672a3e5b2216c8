// Package cnat has the name of the API group of At, which all its versions share.
package cnat

// GroupName is the API group of At. It is the group of the tutorial operator "cloud native at", so that manifests for
// the tutorial operator apply unchanged.
const GroupName = "cnat.programming-kubernetes.info"
