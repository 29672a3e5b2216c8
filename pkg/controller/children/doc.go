// Package children writes the objects that a kind owns. It is the one place that
// does, for built-in types and custom resources:
//
//	absent      POST. A name that is taken by an object which this owner does not
//	            control is a NameConflict: that object is never touched.
//	present     nothing if it says what is wanted; else one three-way strategic
//	            merge patch, with UID and resource version as preconditions.
//	not wanted  DELETE with a UID precondition, if this owner controls it.
//	let go      one patch that takes the owner's reference off.
//
// The three ways are what was wanted last, which an annotation of the child
// records; what is wanted now; and what is there. So drift in what is wanted is put
// right, what is no longer wanted is taken out, and what others set stays. An item
// that others add to a list stays too; an item of ours under another key, a duplicate
// of ours, and a port with the name of ours do not. Of
// ConfigMaps and Secrets the data is wholly the owner's: it is compared with what
// is there, and never recorded. So is the spec of custom resources, for which the API
// server takes no strategic merge patch, but a merge patch.
//
// Children go with their owner by garbage collection, but for those of a Type that
// Outlives it.
package children
