// Package controller is the engine that reconciles the objects of every kind. It imports no package
// of a kind.
//
//	informers ──events──▶ handlers ──keys──▶ queue ──▶ workers ──writes──▶ API server
//	(reflector + cache)   self/owner/referrer  two lanes,   │ 1 caught up?  the cache has observed our own writes
//	    ▲                                      backoff      │ 2 fetch       from the cache; NotFound: release, forget
//	    │                                                   │ 3 paused?     set the condition Paused, and stop
//	    │                                                   │ 4 finalize    call Finalize, remove the finalizer, stop
//	    │                                                   │ 5 allowed?    no write budget, or unreadable: stop
//	    │                                                   │ 6 reconcile   add a missing finalizer; call the kind
//	    └───────────── watch ◀──────────────────────────────│ 7 status      one write, only if it has changed
//	                                                        └ 8 outcome     forget / after / backoff / quickly
//
// Start reading at Controller.Run and its worker loop (controller.go). Then read Pipeline.Sync
// (pipeline.go), and the contract with a kind (contract.go).
//
// When a reconcile ends, classify (classify.go) returns the decision about the status and the next reconcile. The
// constants of type Outcome (outcome.go) describe each case.
package controller
