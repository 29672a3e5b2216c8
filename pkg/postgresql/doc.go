// Package postgresql keeps a role and a database on a PostgreSQL server in their desired state. It does
// not import Kubernetes.
//
//	Want ──▶ Server.Exists ──▶ Create │ Update │ Delete
//	              │                    │
//	         sight: the result         └─ query, decide on one statement, execute it;
//	         of one query                 until none is left
//
// The observed and the desired state decide on the next statement (plan.go), so that a connection can
// be lost at any time: the next reconcile continues. A role or database is ours if it has our Mark, a
// comment with the UID of the object that it belongs to; whose.go has the exceptions. Others are never
// changed.
package postgresql
