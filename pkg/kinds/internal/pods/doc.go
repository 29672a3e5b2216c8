// Package pods has what the Pods of all kinds have in common: how they are cached and restricted, and why
// a container does not start.
package pods
