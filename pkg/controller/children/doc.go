// Package children writes the objects that a kind owns. It is the only package that does so, for built-in
// types and custom resources. It handles these cases:
//
//	missing      POST. If an object that this owner does not control has the name, the error has the
//	             reason NameConflict, and that object is never changed.
//	existing     nothing if the child is in its desired state. Otherwise one three-way strategic merge
//	             patch, with UID and resource version as preconditions.
//	not desired  DELETE with a UID precondition, if this owner controls the child.
//	released     one patch that removes the owner reference.
//
// The three-way merge compares the state that was desired last, which an annotation of the child records,
// the desired state and the observed state. It repairs drift in fields that are desired, removes fields
// that are no longer desired, and keeps fields that others set. It also keeps items that others add to a
// list. It does not keep a desired item whose merge key was changed, a duplicate of a desired item, or a
// port with the name of a desired port. The data of ConfigMaps and Secrets, and the spec of custom
// resources, belong to the owner as a whole: they are compared with the observed values, and never recorded.
// Custom resources are written by merge patches, because the API server supports no strategic merge patch
// of them.
//
// Garbage collection deletes children with their owner, except those of a Type that Outlives the owner.
package children
