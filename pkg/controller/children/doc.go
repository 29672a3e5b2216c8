// Package children writes the objects that a kind owns, of built-in types and custom resources. Only Pods are written
// without this package. It handles these cases:
//
//	missing      POST. If an object that does not belong to this owner has the name, the error has the
//	             reason NameConflict or Terminating, and that object is never changed.
//	existing     nothing if the child is in its desired state. Otherwise a three-way merge patch, and at most
//	             two more while the API server rejects the result as invalid. Each patch has UID and resource
//	             version as preconditions.
//	not desired  DELETE with a UID precondition, if the child belongs to this owner.
//	released     one patch that removes the owner reference.
//
// Several functions write a child:
//
//	Ensure, Update     create or update a child, and only update it. Both call update, which computes a change, and
//	                   apply, which sends the change by write, as the following paragraphs describe.
//	Prune, PruneLive   delete a child that is not desired. PruneLive reads the child from the API server first.
//	Remove             deletes a child after the objects that the child owns. All three call delete.
//	Release, Reclaim   remove and restore the owner reference by write.
//
// The three-way merge compares the state that was desired last, which an annotation of the child records, the desired
// state and the observed state. As JSON values, these states are called previous, desired and observed (original,
// modified and current in package strategicpatch), and one of their fields was, want and is. A merge removes what
// previous has and desired lacks. As typed objects, the desired and the observed child are called want and live.
//
// The three-way merge repairs drift in fields that are desired, removes fields that are no longer desired,
// and keeps fields that other clients set. The data of ConfigMaps and Secrets, and the spec of custom resources, belong
// to the owner as a whole: the package compares these fields with the observed values, and never records them.
//
// The first patch is a strategic merge patch, which keeps list items of other clients. A JSON merge patch, which
// replaces lists, takes its place in three cases: the first patch would lose or repeat a desired item, another client
// has renamed a desired item, or the API server rejects a field of the result. If the API server rejects the second
// result too, a JSON merge patch follows that replaces the spec except for Yielded fields.
//
// Some children get fewer patches. A custom resource gets only the last patch, because the API server supports no
// strategic merge patch of custom resources. A child that outlives its owner gets no further patch after a rejection,
// because it has data.
//
// Garbage collection deletes children with their owner, except children of a Type with Outlives.
package children
