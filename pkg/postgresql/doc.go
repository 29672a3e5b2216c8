// Package postgresql keeps a role and a database on a PostgreSQL server, and knows
// nothing of Kubernetes.
//
//	Want ──▶ Server.Exists ──▶ Create │ Update │ Delete
//	              │                    │
//	         sight: one query          └─ look, decide on one statement, do it; until
//	         tells all                    nothing is left to do
//
// What is there and what shall be decides on the next statement (plan.go), so that a
// connection may be cut anywhere: the next pass looks again, and goes on. A role or
// database is ours if it bears our Mark, a comment with the UID of the object that it
// is kept for; see whose.go for what else is. No other one is ever touched.
package postgresql
