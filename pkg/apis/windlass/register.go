// Package windlass holds what all versions of the windlass.dev API group share.
package windlass

// GroupName is the API group of all kinds but At.
const GroupName = "windlass.dev"
