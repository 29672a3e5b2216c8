package shards

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// Times of a Lease in the simulation, in ticks.
const (
	valid    = 60 // without a renewal
	deadline = 40 // after which a holder that could not renew a Lease sends no writes, and ends
)

// stored is a Lease as the API server stores it.
type stored struct {
	Lease
	renewed int
}

// holding is what a replica knows about a shard whose Lease it holds.
type holding struct {
	renewed   int
	read      *Layout // after the Lease was acquired, or after the layout has changed
	confirmed bool    // read was confirmed
	works     bool    // with read
}

// replica is a process in the simulation.
type replica struct {
	name   string
	frozen bool
	seen   View // outdated
	holds  map[int]*holding
}

// namespaces are those whose owners are compared.
var namespaces = slices.Sorted(maps.Keys(tenants(20, 0)))

// simulation has the state of the API server and of all replicas. Each step is one request of one replica.
type simulation struct {
	random   *rand.Rand
	now      int
	layout   Layout
	leases   []stored
	replicas []*replica
	started  int
}

// view returns what a replica would read from the API server. An expired Lease has no holder.
func (s *simulation) view() View {
	v := View{Layout: s.layout}
	for _, r := range s.replicas {
		if !r.frozen {
			v.Replicas = append(v.Replicas, r.name)
		}
	}
	for _, l := range s.leases {
		if s.now-l.renewed > valid {
			l.Holder = ""
		}
		v.Leases = append(v.Leases, l.Lease)
	}
	return v
}

// step lets a replica send one request. It returns false if the replica has ended, because it lost a Lease.
func (s *simulation) step(r *replica) bool {
	for shard, h := range r.holds {
		if s.now-h.renewed > deadline || s.leases[shard].Holder != r.name {
			return false
		}
	}
	switch s.random.IntN(5) {
	case 0:
		r.seen = s.view()
	case 1:
		for shard, h := range r.holds {
			s.leases[shard].renewed, h.renewed = s.now, s.now
		}
	case 2:
		s.take(r)
	case 3:
		if shard, ok := r.seen.Give(r.name); ok && r.holds[shard] != nil {
			delete(r.holds, shard) // the work ends before the Lease is released
			s.leases[shard].Holder = ""
		}
	case 4:
		for shard, h := range r.holds {
			s.work(shard, h)
			break // in random order
		}
	}
	return true
}

func (s *simulation) take(r *replica) {
	shards := r.seen.Take(r.name)
	if len(shards) == 0 {
		return
	}
	shard := shards[0]
	for shard >= len(s.leases) {
		s.leases = append(s.leases, stored{})
	}
	if l := &s.leases[shard]; l.Holder == "" || s.now-l.renewed > valid {
		l.Holder, l.renewed = r.name, s.now
		r.holds[shard] = &holding{renewed: s.now}
	}
}

// work takes the next step towards work with the newest layout.
func (s *simulation) work(shard int, h *holding) {
	switch {
	case h.read == nil || h.read.Version != s.layout.Version:
		layout := s.layout
		*h = holding{renewed: h.renewed, read: &layout} // the work with the earlier layout has ended
	case !h.confirmed:
		s.leases[shard].Confirmed, h.confirmed = h.read.ID(), true
	case !h.works && shard < h.read.Shards():
		v := s.view()
		v.Layout = *h.read
		h.works = v.MayWork(shard)
	case shard == 0 && s.random.IntN(20) == 0:
		weights := tenants(20, s.random.IntN(5000))
		s.layout = Layout{Version: s.layout.Version + 1, Cuts: Balance(weights, 1+s.random.IntN(6))}
	}
}

// disturb ends, freezes, thaws or starts a replica.
func (s *simulation) disturb() {
	i := s.random.IntN(len(s.replicas))
	switch s.random.IntN(4) {
	case 0:
		s.replicas = slices.Delete(s.replicas, i, i+1)
	case 1:
		s.replicas[i].frozen = true
	case 2:
		s.replicas[i].frozen = false
	}
	for len(s.replicas) < 2+s.random.IntN(3) {
		s.replicas = append(s.replicas, s.start())
	}
}

// start returns a new replica.
func (s *simulation) start() *replica {
	s.started++
	return &replica{name: fmt.Sprintf("replica-%d", s.started), holds: map[int]*holding{}}
}

// conflict returns two holders that may write to the same namespace, or "".
func (s *simulation) conflict() string {
	for _, namespace := range namespaces {
		owner := ""
		for _, r := range s.replicas {
			for shard, h := range r.holds {
				if !h.works || s.now-h.renewed > deadline || h.read.ShardOf(namespace) != shard {
					continue
				}
				if owner != "" {
					return fmt.Sprintf("%s and shard %d of %s work on namespace %s", owner, shard, r.name, namespace)
				}
				owner = fmt.Sprintf("shard %d of %s", shard, r.name)
			}
		}
	}
	return ""
}

// settled reports whether each shard is worked on with the newest layout, and no replica has two shards more than another.
func (s *simulation) settled() bool {
	works, fewest, most := 0, len(s.leases), 0
	for _, r := range s.replicas {
		for _, h := range r.holds {
			if h.works && h.read.Version == s.layout.Version {
				works++
			}
		}
		fewest, most = min(fewest, len(r.holds)), max(most, len(r.holds))
	}
	return works == s.layout.Shards() && most-fewest <= 1
}

// run lets random replicas send requests, and fails the test if a namespace has two owners.
func (s *simulation) run(t *testing.T, steps int) {
	t.Helper()
	for range steps {
		s.now += s.random.IntN(2)
		i := s.random.IntN(len(s.replicas))
		if r := s.replicas[i]; !r.frozen && !s.step(r) {
			s.replicas[i] = s.start()
		}
		if c := s.conflict(); c != "" {
			t.Fatalf("after %d ticks: %s", s.now, c)
		}
	}
}

func TestNoNamespaceHasTwoOwners(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := &simulation{random: rand.New(rand.NewPCG(seed, 1)), layout: Layout{Version: 1}}
			s.replicas = []*replica{s.start()}
			for range 20 {
				s.disturb()
				s.run(t, 100)
			}
			for _, r := range s.replicas {
				r.frozen = false
			}
			for range 200 {
				if s.run(t, 100); s.settled() {
					return
				}
			}
			t.Errorf("the replicas do not settle: %+v", s.view())
		})
	}
}
