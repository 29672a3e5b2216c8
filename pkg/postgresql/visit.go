package postgresql

import (
	"context"
	"time"
)

// visit is the use of a server by one caller, from gate.enter to leave.
type visit struct {
	gate   *gate
	server *known
	tenant *tenant
	began  time.Time
	slot   bool
	// answers is true if the server responded to the last request.
	answers bool
	left    bool
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
	v.gate.mu.Lock()
	defer v.gate.mu.Unlock()
	v.answers, v.server.until, v.server.silence = ClassOf(err) != Silent, time.Time{}, nil
	if v.answers {
		return
	}
	failed := failureOf(err) // without the text that wraps it, because other callers get the same error
	away := awayFor
	if time.Since(v.began) <= quick {
		away = quick
	}
	v.server.until, v.server.silence = time.Now().Add(away), &failed
}

// overdue is called when the time of a visit is over. A visit without a slot continues if it gets a slot. overdue ends
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
	v.end(errSlow)
}

// leave ends the visit, and frees its slot.
func (v *visit) leave() {
	g, who := v.gate, v.tenant
	g.mu.Lock()
	defer g.mu.Unlock()
	v.left = true
	v.timer.Stop()
	v.end(nil)
	now := time.Now()
	who.visits--
	who.used = now
	v.server.proven = v.answers && now.Sub(v.began) <= slowAfter
	if v.slot {
		g.taken--
		who.slots--
		who.bad = !v.server.proven
	}
}
