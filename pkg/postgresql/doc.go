// Package postgresql keeps a role and a database on a PostgreSQL server in their desired state. It does
// not import Kubernetes.
//
//	Want ──▶ Server.Exists ──▶ Create │ Update │ Delete
//	              │                    │
//	         sight: the result         └─ query, choose the next step, execute it;
//	         of one query                 until none is left
//
// The observed and the desired state determine the next step (plan.go), so a reconcile after a lost
// connection continues where the previous reconcile stopped. A role or database is ours if it has our Mark,
// a comment with the UID of its object; whose.go has the exceptions. The package never changes other roles
// and databases.
package postgresql
