// Package plan finds out what controllers would do in a cluster, without changing the cluster.
//
// The controllers run as they are: with their clients, caches, queues and reconcilers. Only the transport of their
// clients differs. A Server takes the place of the API server:
//
//   - It sends every write to the real API server with dryRun=All, and remembers the response.
//   - It responds to later reads, lists and watches as if the writes had happened.
//   - It deletes the dependents of deleted objects, as the garbage collector does.
//
// A Run then reconciles one key at a time until all remaining objects wait for a kubelet, another controller, another
// server or a time. The Server has then recorded all writes.
//
// The cluster is observed once, when the caches are filled. If another client changes an object after that, the plan
// takes the change into account only if it reads or writes the same object.
package plan
