// Package shards divides the namespaces of a cluster among the replicas of an operator, and decides which replica works
// on which shard. Package process carries out these decisions.
//
//	layout   divides the hashes of all namespaces into shards; has a version, and is stored in a ConfigMap
//	shard    a range of hashes, with all namespaces whose hashes are in it; no namespace is divided
//	leader   the replica that holds the Lease OPERATOR; only the leader writes the layout
//	owner    the replica that the Lease of a shard names; only the owner works on the shard
//	confirm  to write the ID of a layout into the replica's own Lease, after all work with earlier layouts has stopped
//	release  to remove the owner from the Lease of a shard, so that another replica can acquire it
//	offer    to release a shard for a certain replica
//
// These Leases are in the namespace of the operator:
//
//	OPERATOR               one; the leader renews it
//	OPERATOR-replica-HASH  one for each replica, which renews it
//	OPERATOR-shard-NUMBER  one for each shard; nobody renews it; it is valid as long as its owner's Lease
//
// Each replica repeats these steps:
//
//  1. It reads these Leases, and then the layout. If the layout has changed, it stops all work, keeps its Leases,
//     confirms the new layout, and begins again.
//  2. It releases a shard if the layout no longer has it, or if another replica has too few shards (View.Surplus).
//     It acquires the shards that are offered to it, and other free shards up to its share (View.Take).
//  3. It begins to work on a shard that it owns, once the leader and the owners of all other shards have confirmed
//     the layout (View.MayWork). To decide this, it uses only Leases and a layout that it has read after it acquired
//     the shard.
//  4. If it leads, it tidies up after replicas that are gone (Observer.Gone, Observer.Abandoned), and keeps the
//     layout up to date.
//
// A replica that stops says so in its Lease (StoppingAnnotation). From then on, the replica acquires no shards, and
// releases each of its shards when its work on the shard has ended.
//
// Therefore no two replicas work on the same namespace, even while the layout changes.
package shards
