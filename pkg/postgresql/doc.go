// Package postgresql keeps a role and a database on a PostgreSQL server in their desired state. It does
// not import Kubernetes.
//
//	Want ──▶ Server.Exists ──▶ Ensure │ Rotate │ Retire │ Delete
//	              │                    │
//	         state: the result         └─ query, choose the next step, execute it;
//	         of one query                 until none is left
//
// The observed and the desired state determine the next step, so a reconcile after a lost connection continues
// where the previous reconcile stopped. A role or database is ours if it has our Mark, a comment with the UID of its
// object; ownership.go has the exceptions. The package never changes other roles and databases.
//
// To read the package from top to bottom:
//
//   - server.go, apply.go, steps.go, extensions.go and plan.go carry out steps.
//   - change.go, alternate.go, retirement.go and deletion.go choose the next step.
//   - ownership.go, protected.go and conflict.go decide what may be changed.
//   - want.go, mark.go and state.go have the desired and the observed state.
//   - session.go, connect.go and inspect.go exchange messages with a server, and servermessages.go turns its errors
//     into text for users.
//   - gate.go and visit.go limit the time that a server takes, and allowed.go limits the servers.
//   - serversettings.go looks at the server of a Database.
package postgresql
