// Package controller is the engine that reconciles the objects of every kind. It imports none of
// them.
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
// The end of a reconcile decides what follows: classify (classify.go) returns its Outcome, and the
// constants of Outcome (outcome.go) describe what the engine does then.
package controller
