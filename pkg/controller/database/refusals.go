package database

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// growthRetry is how often a volume is asked to grow that could not: its class may
// allow that meanwhile.
const growthRetry = 5 * time.Minute

// refusals remembers which Databases' volumes could not grow, so that they are not
// asked again at every event. It is lost with the process, and costs one more request
// then.
type refusals struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	last  map[types.UID]refusal
}

type refusal struct {
	wanted, has resource.Quantity
	err         error
	until       time.Time
}

func newRefusals(clk clock.PassiveClock) *refusals {
	return &refusals{clock: clk, last: map[types.UID]refusal{}}
}

// note remembers that a Database's volume could not grow to the size that is wanted
// from the one that it has.
func (r *refusals) note(database types.UID, wanted, has resource.Quantity, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[database] = refusal{wanted: wanted, has: has, err: err, until: r.clock.Now().Add(growthRetry)}
}

// recent is the size that the volume has, and the error of the attempt to have it grow,
// if that need not be made again yet; a nil error if it is to be made.
func (r *refusals) recent(database types.UID, wanted resource.Quantity) (has resource.Quantity, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.last[database]
	if known && last.wanted.Cmp(wanted) == 0 && r.clock.Now().Before(last.until) {
		return last.has, last.err
	}
	delete(r.last, database)
	return has, nil
}

// forget drops what is known of a Database that goes.
func (r *refusals) forget(database types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, database)
}
