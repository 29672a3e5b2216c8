// Package controller is the engine that every kind of Windlass runs on. It knows
// none of them.
//
//	informers ──events──▶ handlers ──keys──▶ queue ──▶ workers ──writes──▶ API server
//	(reflector + cache)   self/owner/referrer  two lanes,   │ 1 caught up?  the cache holds our own last writes
//	    ▲                                      backoff      │ 2 fetch       from the lister; NotFound: forget
//	    │                                                   │ 3 finalize    deleting: Finalize, then drop the finalizer
//	    │                                                   │               else: the finalizer is there, or is added now
//	    │                                                   │ 4 reconcile   the kind, unless what it reads is as it was; may write children and obj.Status
//	    └───────────── watch ◀──────────────────────────────│ 5 status      one write, only if changed, on error too
//	                                                        └ 6 outcome     forget / after / backoff / terminal
//
// Start reading at Controller.Run and its worker loop (controller.go), go on with
// Pipeline.Sync (pipeline.go), and then the contract with a kind (contract.go).
//
// How a pass ends decides what follows: the constants of Outcome (outcome.go) say what, and
// classify (classify.go) is the one place that sorts passes into them.
package controller
