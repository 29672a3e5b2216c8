// Package postgresql keeps a role and a database on a PostgreSQL server in their desired state. It does
// not import Kubernetes.
//
//	Want ──▶ Server.Exists ──▶ Create │ Update │ Delete
//	              │                    │
//	         sight: the result         └─ query, decide on one statement, execute it;
//	         of one query                 until none is left
//
// The observed and the desired state determine the next statement (plan.go). After a lost connection the next
// reconcile therefore continues. A role or database is ours if it has our Mark, a comment with the UID of the
// object that it belongs to; whose.go has the exceptions. Roles and databases of others are never changed.
package postgresql
