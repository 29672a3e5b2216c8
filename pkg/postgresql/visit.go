package postgresql

import (
	"context"
	"time"
)

// visit is a caller that the gate has admitted.
type visit struct {
	gate   *gate
	server *known
	tenant *tenant
	began  time.Time
	slot   bool
	left   bool
	// ctx ends with the visit. end cancels ctx with a cause.
	ctx   context.Context
	end   context.CancelCauseFunc
	timer *time.Timer
}

var errSlow = NewError(Silent, "the server is too slow: the statements of a reconcile exceeded their time limit")

// within returns a context that also ends when the gate ends the visit.
func (v *visit) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(v.ctx, func() { cancel(context.Cause(v.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// asked records whether the server responded to a request that ended with err.
func (v *visit) asked(err error) {
	g, server := v.gate, v.server
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	server.since, server.answers, server.until, server.silence = now, true, time.Time{}, nil
	if isSilent(err) {
		failed := failureOf(err) // without the context of the request, because other callers get it
		if server.silentSince.IsZero() {
			server.silentSince = now
		}
		server.answers, server.until, server.silence = false, now.Add(server.awayFor(now, now.Sub(v.began))), &failed
		return
	}
	server.responded, server.silentSince = true, time.Time{}
}

// awayFor returns how long the gate rejects visits after a visit of the given duration to a server that did not
// respond. A server that has never responded may be starting: if the visit failed quickly, the time grows with the
// silence.
func (s *known) awayFor(now time.Time, took time.Duration) time.Duration {
	if s.responded || took > quick {
		return awayFor
	}
	return min(max(now.Sub(s.silentSince), soonest), awayFor)
}

// overdue handles a visit that exceeds its time. A visit without a slot continues if it gets one. overdue ends
// all other visits.
func (v *visit) overdue() {
	g := v.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if v.left {
		return
	}
	if !v.slot {
		now := time.Now()
		v.server.proven, v.tenant.struck = false, now.Add(struckFor)
		if g.take(v, now) == nil {
			v.timer.Reset(longest - slowAfter)
			return
		}
	}
	v.server.cut = true
	v.end(errSlow)
}

// leave ends the visit.
func (v *visit) leave() {
	g, server, who := v.gate, v.server, v.tenant
	g.mu.Lock()
	defer g.mu.Unlock()
	v.left = true
	v.timer.Stop()
	v.end(nil)
	now := time.Now()
	server.callers--
	server.used = now
	server.proven = server.answers && now.Sub(v.began) <= slowAfter
	server.cut = server.cut && !server.answers
	if v.slot {
		g.taken--
		who.slots--
		who.bad = !server.proven
	}
}
