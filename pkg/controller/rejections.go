package controller

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Rejections remembers the requests that the API server rejected, so that no event causes another attempt before it is
// due. A kind uses Rejections for each part of an object that the kind writes separately, for example for each
// component of a Platform. A value of type I is the input of an attempt, such as the generation of the object. An
// attempt with another input is not delayed. A restart loses the rejections: the new process sends each rejected
// request once more.
type Rejections[I comparable] struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	last   map[rejectionKey]rejection[I]
	pruned time.Time // when outdated rejections were last dropped
}

// Rejection is one rejected request.
type Rejection struct {
	// Err is the error of the API server.
	Err error
	// Until is when the next attempt is due.
	Until time.Time
}

// rejectionKey identifies the part of an object that a request was for.
type rejectionKey struct {
	object types.UID
	part   string
}

type rejection[I comparable] struct {
	Rejection
	input     I
	first     time.Time
	forgotten time.Time // a rejection after this time counts as the first one
}

// NewRejections returns Rejections that remember nothing yet.
func NewRejections[I comparable](clk clock.PassiveClock) *Rejections[I] {
	return &Rejections[I]{clock: clk, last: map[rejectionKey]rejection[I]{}}
}

// Note records that the API server rejected an attempt for a part of an object. The delay until the next attempt is the
// time since the first rejection, but at least shortest and at most longest.
func (r *Rejections[I]) Note(
	object types.UID, part string, input I, err error, shortest, longest time.Duration,
) Rejection {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	r.prune(now)
	key := rejectionKey{object, part}
	last, again := r.last[key]
	if !again || last.input != input || now.After(last.forgotten) {
		last = rejection[I]{input: input, first: now}
	}
	last.Rejection = Rejection{Err: err, Until: now.Add(min(max(now.Sub(last.first), shortest), longest))}
	last.forgotten = last.Until.Add(longest)
	r.last[key] = last
	return last.Rejection
}

// Recent returns the rejection of an attempt for a part of an object. found is false if no attempt with this input was
// rejected, or if the next attempt is due. Recent forgets the rejection of an attempt with another input for this part.
func (r *Rejections[I]) Recent(object types.UID, part string, input I) (last Rejection, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := rejectionKey{object, part}
	known, found := r.last[key]
	if found && known.input != input {
		delete(r.last, key) // so that a later attempt with the old input is not delayed
		return Rejection{}, false
	}
	if !found || !r.clock.Now().Before(known.Until) {
		return Rejection{}, false
	}
	return known.Rejection, true
}

// prune drops outdated rejections, at most once a minute. The caller holds the lock.
func (r *Rejections[I]) prune(now time.Time) {
	if now.Sub(r.pruned) < time.Minute {
		return
	}
	r.pruned = now
	maps.DeleteFunc(r.last, func(_ rejectionKey, old rejection[I]) bool { return now.After(old.forgotten) })
}
