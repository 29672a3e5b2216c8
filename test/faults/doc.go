// Package faults tests that the operator converges. It runs the complete operator in the test process, against a
// real API server. It records each request that the operator sends and each event that the operator receives, and
// runs the same scenario again with a fault at each request and event. docs/reliability.md describes the faults and
// the checks.
//
//	scenario ──▶ user ────────────writes─────────────▶ real API server
//	             simulator (Pods, rollouts, garbage) ─▶     │    ▲
//	                                                      watch  │ requests, one at a time
//	                                                        ▼    │
//	             injector ◀──points──  observer ──▶ process (all kinds, as shipped)
//	                │                   history      lists and watches come from the history,
//	                └──faults──────────────────────▶ one event at a time
//
// Each run of a scenario has its own bubble of testing/synctest. The clock of the bubble stands still while anything is
// in progress, and jumps when nothing is in progress. Minutes of backoff therefore take no time, the run knows exactly
// when the operator is at rest, and a goroutine that is left over is an error. Runs are repeatable, because an event is
// delivered only when all effects of the previous event have ended.
//
// Writes and reads of single objects are sent to the API server. Lists and watches are served from a history of the
// API server's events, as the API server itself serves them from its watch cache. A run can therefore freeze an
// informer, serve it an old list, or withhold an event.
package faults
