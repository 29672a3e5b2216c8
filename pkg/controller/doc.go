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
// How a pass ends decides what follows. classify (outcome.go) is the one place
// that sorts it:
//
//	outcome                what the engine does
//	Result{}, nil          forgets the backoff; waits for events, or for the periodic check
//	RequeueAfter > 0, nil  forgets the backoff; comes back after exactly that long
//	... with Check         the same, but behind what users do
//	Continue(), nil        comes back once the cache has the status
//	an error               backoff per key: 1 s, 2 s, 4 s … 5 min; logged once; Ready=False
//	a conflict (409)       quiet, fast retry; no event, no error log, no status
//	Postpone               comes back after its time; no event, no status
//	a budget used up       comes back when the object may be written for again; no event, no status
//	StoreFirst             Ready=False; comes back once the cache has the status
//	WaitFor                Ready=False; retried after its time and when a dependency changes
//	Invalid (422)          Degraded=True; retried after 5 min and on any change
//	Unreadable             Degraded=True, Stalled=True; logged once for each version; retried on a change; asks each minute for room
//	Terminal, Stalled      Degraded=True, Stalled=True; retried on a change; Stalled after its time too
//	... Unstalled          Degraded=True; retried as above: only a part of the object cannot go on
//	a panic                recovered, counted, treated as an error
package controller
