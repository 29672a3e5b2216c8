// Package controller is the engine that reconciles the objects of every kind. It imports the package
// of no kind.
//
//	informers ──events──▶ handlers ──keys──▶ queue ──▶ workers ──writes──▶ API server
//	(reflector + cache)   self/owner/referrer  two lanes,   │ 1 caught up?  the cache has observed our own writes
//	    ▲                                      backoff      │ 2 fetch       from the cache; NotFound: forget
//	    │                                                   │ 3 finalize    being deleted: Finalize, then remove the finalizer
//	    │                                                   │               otherwise: add the finalizer if it is missing
//	    │                                                   │ 4 reconcile   the kind, unless nothing it reads has changed; may write children and obj.Status
//	    └───────────── watch ◀──────────────────────────────│ 5 status      one write, only if changed, also after an error
//	                                                        └ 6 outcome     forget / after / backoff / terminal
//
// Start reading at Controller.Run and its worker loop (controller.go). Then read Pipeline.Sync
// (pipeline.go), and the contract with a kind (contract.go).
//
// When a reconcile ends, classify (classify.go) decides its outcome. The constants of type Outcome
// (outcome.go) describe what the engine does after each outcome.
package controller
