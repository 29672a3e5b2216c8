// Package pods is what the Pods of all kinds have in common: how they are cached,
// what is wrong with them, and how they are confined.
package pods
