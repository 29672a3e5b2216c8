// Package windlass has the name of the API group windlass.dev, which all its versions share.
package windlass

// GroupName is the API group of all kinds except At.
const GroupName = "windlass.dev"
