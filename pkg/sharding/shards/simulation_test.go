package shards

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// Times of the Lease of a replica in the simulation, in ticks.
const (
	valid    = 60 // without a renewal
	deadline = 40 // after which a replica that could not renew its Lease sends no writes, and ends
)

// replica is a process in the simulation, and its Lease.
type replica struct {
	name    string
	frozen  bool
	renewed int
	// confirmed is the layout ID in the Lease of the replica.
	confirmed string
	read      *Layout
	seen      View         // the last View that the replica read
	works     map[int]bool // whether the replica works on a shard, for each shard that it owns
	// whole is true for a replica without shards, which works on all namespaces when it leads. all is true once it works
	// on all namespaces.
	whole, all bool
}

// mayWrite reports whether a replica may still send writes.
func (s *simulation) mayWrite(r *replica) bool { return s.now-r.renewed <= deadline }

// namespaces are the namespaces whose owners the simulation compares.
var namespaces = slices.Sorted(maps.Keys(tenants(20, 0)))

// simulation has the state of the API server and of all replicas. Each step is one request of one replica.
type simulation struct {
	random   *rand.Rand
	now      int
	layout   Layout
	leader   string
	owners   []string            // of the Leases of the shards
	replicas []*replica          // that run
	leases   map[string]*replica // of replicas that run, and of replicas that have ended
	started  int
}

// lease returns a Lease with this owner, as replicas see it. The Lease is free if the Lease of the owner has expired.
func (s *simulation) lease(owner string) Lease {
	if r := s.leases[owner]; r != nil && s.now-r.renewed <= valid {
		return Lease{Owner: owner, Confirmed: r.confirmed}
	}
	return Lease{}
}

// view returns what a replica would read from the API server.
func (s *simulation) view() View {
	v := View{Layout: s.layout, Leader: s.lease(s.leader)}
	for name, r := range s.leases {
		if s.lease(name).Owner != "" && !r.whole {
			v.Replicas = append(v.Replicas, name)
		}
	}
	slices.Sort(v.Replicas)
	v.Renewed = v.Replicas
	for _, owner := range s.owners {
		v.Leases = append(v.Leases, s.lease(owner))
	}
	return v
}

// step lets a replica send one request. It returns false if the replica ends.
func (s *simulation) step(r *replica) bool {
	if !s.mayWrite(r) {
		return false
	}
	for shard := range r.works {
		if s.owners[shard] != r.name {
			return false
		}
	}
	switch s.random.IntN(5) {
	case 0:
		r.seen = s.view()
	case 1:
		r.renewed = s.now
	case 2:
		s.take(r)
	case 3:
		if shard, _, ok := r.seen.Surplus(r.name); ok && s.owners[shard] == r.name {
			delete(r.works, shard) // the work ends before the Lease is released
			s.owners[shard] = ""
		}
	case 4:
		s.work(r)
	}
	return true
}

// take lets a replica acquire the Lease of the leader or of a shard.
func (s *simulation) take(r *replica) {
	if s.lease(s.leader).Owner == "" && s.random.IntN(2) == 0 && (r.whole || r.confirmed != "") {
		s.leader = r.name
		return
	}
	shards := r.seen.Take(r.name)
	if len(shards) == 0 || r.whole {
		return
	}
	shard := shards[0]
	for shard >= len(s.owners) {
		s.owners = append(s.owners, "")
	}
	if s.lease(s.owners[shard]).Owner == "" {
		s.owners[shard], r.works[shard] = r.name, false
	}
}

// work lets a replica take the next step towards work with the newest layout.
func (s *simulation) work(r *replica) {
	if r.whole {
		s.workOnAll(r)
		return
	}
	if r.read == nil || r.read.Version != s.layout.Version {
		layout := s.layout
		r.read = &layout
		for shard := range r.works {
			r.works[shard] = false // the work with the earlier layout has ended
		}
		return
	}
	r.confirmed = r.read.ID()
	v := s.view()
	for shard := range r.works {
		r.works[shard] = r.works[shard] || v.MayWork(shard)
	}
	if s.leader == r.name && s.random.IntN(20) == 0 || s.layout.Shards() == 0 {
		s.layout = Layout{Version: s.layout.Version + 1, Cuts: Balance(tenants(20, s.random.IntN(5000)), 2+s.random.IntN(6))}
	}
}

// workOnAll lets a leader without shards take the next step towards work on all namespaces.
func (s *simulation) workOnAll(r *replica) {
	switch {
	case s.leader != r.name:
	case s.layout.Shards() > 0:
		s.layout = Layout{Version: s.layout.Version + 1}
	default:
		r.all = r.all || s.view().Idle()
	}
}

// disturb ends, freezes, thaws or starts a replica.
func (s *simulation) disturb() {
	i := s.random.IntN(len(s.replicas))
	switch s.random.IntN(5) {
	case 0:
		s.replicas = slices.Delete(s.replicas, i, i+1)
	case 1:
		s.replicas[i].frozen = true
	case 2:
		s.replicas[i].frozen = false
	case 3:
		s.replicas = append(s.replicas, s.start())
		s.replicas[len(s.replicas)-1].whole = true
	}
	for len(s.replicas) < 2+s.random.IntN(3) {
		s.replicas = append(s.replicas, s.start())
	}
}

// start returns a new replica.
func (s *simulation) start() *replica {
	s.started++
	r := &replica{name: fmt.Sprintf("replica-%d", s.started), renewed: s.now, works: map[int]bool{}}
	s.leases[r.name] = r
	return r
}

// owns reports whether a replica may write to a namespace.
func (s *simulation) owns(r *replica, namespace string) bool {
	return s.mayWrite(r) && (r.all || r.read != nil && r.works[r.read.ShardOf(namespace)])
}

// conflict describes two replicas that may write to the same namespace, or returns "".
func (s *simulation) conflict() string {
	for _, namespace := range namespaces {
		owner := ""
		for _, r := range s.replicas {
			if !s.owns(r, namespace) {
				continue
			}
			if owner != "" {
				return fmt.Sprintf("%s and %s work on namespace %s", owner, r.name, namespace)
			}
			owner = r.name
		}
	}
	return ""
}

// settled reports whether replicas work on all shards with the newest layout, and no replica has two shards more than
// another replica.
func (s *simulation) settled() bool {
	works, fewest, most := 0, len(s.owners), 0
	for _, r := range s.replicas {
		for _, w := range r.works {
			if w && r.read.Version == s.layout.Version {
				works++
			}
		}
		fewest, most = min(fewest, len(r.works)), max(most, len(r.works))
	}
	return works > 0 && works == s.layout.Shards() && most-fewest <= 1
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
			s := &simulation{random: rand.New(rand.NewPCG(seed, 1)), layout: Layout{Version: 1}, leases: map[string]*replica{}}
			s.replicas = []*replica{s.start()}
			for range 20 {
				s.disturb()
				s.run(t, 100)
			}
			s.replicas = slices.DeleteFunc(s.replicas, func(r *replica) bool { return r.whole })
			s.replicas = append(s.replicas, s.start())
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
