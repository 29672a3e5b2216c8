// Package faults proves that the operator converges: it runs it, whole and in this
// process, on a real API server, records each request that it sends and each event that
// it receives, and then runs the same scenario again with a fault at each of them.
//
//	scenario ──▶ user ─────────────writes────────────▶ real API server
//	             nature (Pods, roll-outs, garbage) ──▶      │    ▲
//	                                                     watch   │ requests, one by one
//	                                                        ▼    │
//	             injector ◀──points──  observer ──▶ process (all kinds, as shipped)
//	                │                   history      lists and watches come from the history,
//	                └──faults──────────────────────▶ one event at a time
//
// A process runs in a bubble of testing/synctest: its clock stands still while anything
// is under way and jumps when nothing is, so that minutes of backoff take no time, "at
// rest" is exact, and a goroutine that is left over is an error. What happens in the
// bubble is the same in each run: an event is delivered when all that came of the one
// before has ended.
//
// Requests go to the API server. Lists and watches are answered from the observer's
// history of what the API server has told, which is what its own watch cache does; so
// an informer can be frozen, be served an old list, or miss an event.
package faults
