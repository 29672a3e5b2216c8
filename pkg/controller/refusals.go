package controller

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Refusals remembers the requests that the API server rejected, so that no event causes another attempt before it is
// due. A kind uses Refusals for each part of an object that the kind writes separately, for example for each component
// of a Platform. A value of type I is the input of an attempt, such as the generation of the object. An attempt with
// another input is not delayed. A restart loses the refusals: the new process sends each rejected request once more.
type Refusals[I comparable] struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	last   map[refusalKey]refusal[I]
	pruned time.Time // when outdated refusals were last dropped
}

// Refusal is one rejected request.
type Refusal struct {
	// Err is the error of the API server.
	Err error
	// Until is when the next attempt is due.
	Until time.Time
}

// refusalKey identifies the part of an object that a request was for.
type refusalKey struct {
	object types.UID
	part   string
}

type refusal[I comparable] struct {
	Refusal
	input     I
	first     time.Time
	forgotten time.Time // a refusal after this time counts as the first one
}

// NewRefusals returns Refusals that remember nothing yet.
func NewRefusals[I comparable](clk clock.PassiveClock) *Refusals[I] {
	return &Refusals[I]{clock: clk, last: map[refusalKey]refusal[I]{}}
}

// Note records that the API server rejected an attempt for a part of an object. The delay until the next attempt is the
// time since the first refusal, but at least shortest and at most longest.
func (r *Refusals[I]) Note(object types.UID, part string, input I, err error, shortest, longest time.Duration) Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	r.prune(now)
	key := refusalKey{object, part}
	last, again := r.last[key]
	if !again || last.input != input || now.After(last.forgotten) {
		last = refusal[I]{input: input, first: now}
	}
	last.Refusal = Refusal{Err: err, Until: now.Add(min(max(now.Sub(last.first), shortest), longest))}
	last.forgotten = last.Until.Add(longest)
	r.last[key] = last
	return last.Refusal
}

// Recent returns the refusal of an attempt for a part of an object. found is false if no attempt with this input was
// rejected, or if the next attempt is due. Recent forgets the refusal of an attempt with another input for this part.
func (r *Refusals[I]) Recent(object types.UID, part string, input I) (last Refusal, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := refusalKey{object, part}
	known, found := r.last[key]
	if found && known.input != input {
		delete(r.last, key) // so that a later attempt with the old input is not delayed
		return Refusal{}, false
	}
	if !found || !r.clock.Now().Before(known.Until) {
		return Refusal{}, false
	}
	return known.Refusal, true
}

// prune drops outdated refusals, at most once a minute. The caller holds the lock.
func (r *Refusals[I]) prune(now time.Time) {
	if now.Sub(r.pruned) < time.Minute {
		return
	}
	r.pruned = now
	maps.DeleteFunc(r.last, func(_ refusalKey, old refusal[I]) bool { return now.After(old.forgotten) })
}
