// Package children writes the objects that a kind owns. It is the only package that does so, for built-in
// types and custom resources. It handles these cases:
//
//	missing      POST. If an object that does not belong to this owner has the name, the error has the
//	             reason NameConflict or Terminating, and that object is never changed.
//	existing     nothing if the child is in its desired state. Otherwise one three-way merge patch, with
//	             UID and resource version as preconditions.
//	not desired  DELETE with a UID precondition, if the child belongs to this owner.
//	released     one patch that removes the owner reference.
//
// The three-way merge compares the state that was desired last, which an annotation of the child records,
// the desired state and the observed state. It repairs drift in fields that are desired, removes fields
// that are no longer desired, and keeps fields that other clients set. It also keeps items that other
// clients add to a list. It does not keep a desired item in which another client changed the value of the
// merge key, a duplicate of a desired item, or a port with the name of a desired port. The data of ConfigMaps
// and Secrets, and the spec of custom resources, belong to the owner as a whole: the package compares them
// with the observed values, and never records them.
//
// Built-in types are updated by strategic merge patches, and custom resources by JSON merge patches, because
// the API server supports no strategic merge patch of a custom resource.
//
// Garbage collection deletes children with their owner, except children of a Type with Outlives.
package children
