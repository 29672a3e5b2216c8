package database

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// growthRetry is how often the growth of a volume is retried that was rejected: its class may allow
// it later.
const growthRetry = 5 * time.Minute

// refusals records the Databases whose volumes could not grow, so that not every event leads to a
// retry. It is lost with the process, which costs one request more.
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

// note records that a volume could not grow from the size that it has to the desired one.
func (r *refusals) note(database types.UID, wanted, has resource.Quantity, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[database] = refusal{wanted: wanted, has: has, err: err, until: r.clock.Now().Add(growthRetry)}
}

// recent returns the size that the volume has and the error of the last attempt, or a nil error if
// another attempt is due.
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

// forget forgets a Database that is being deleted.
func (r *refusals) forget(database types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, database)
}
