// Package postgresql keeps a role and a database on a PostgreSQL server in their desired state. It does
// not import Kubernetes.
//
//	Want ──▶ Server.Exists ──▶ Ensure │ Rotate │ Retire │ Delete
//	              │                    │
//	         state: the result         └─ query the state, choose the next step,
//	         of one query                 execute it; repeat until no step is left
//
// The observed and the desired state determine the next step, so a reconcile after a lost connection continues where
// the previous reconcile stopped. In this package, a role or a database is ours if it has our Mark: a comment with the
// UID of the object that it belongs to. ownership.go has the exceptions. The package never changes a role or a database
// that is not ours.
//
// To read the package from top to bottom:
//
//   - server.go, apply.go, steps.go, extensions.go and plan.go carry out steps.
//   - change.go, alternate.go, retirement.go and deletion.go choose the next step.
//   - ownership.go, protected.go and conflict.go decide which roles and databases may be changed.
//   - want.go, mark.go and state.go define the desired and the observed state.
//   - session.go, connect.go and inspect.go exchange messages with a server. servermessages.go converts the errors of
//     the server to text for users.
//   - gate.go and visit.go limit how long slow servers occupy workers. allowed.go decides which servers the operator
//     may connect to.
//   - serversettings.go reads the settings of the server of a Database.
package postgresql
