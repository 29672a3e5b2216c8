package shards

import (
	"cmp"
	"slices"
)

// Lease is what a replica knows of a Lease of the API server.
type Lease struct {
	// Owner is the replica that holds the Lease, or "" if the Lease is free or does not exist, or if the owner is gone.
	Owner string
	// Confirmed is the ID of the newest layout that the owner has confirmed, or "". A replica confirms a layout when it
	// has stopped all work with earlier layouts, and before it begins to work with this one. A replica never returns to an
	// earlier layout.
	Confirmed string
	// Offered is the replica for which the previous owner has released the Lease, or "".
	Offered string
}

// View is what a replica knows: the replicas that run, the leader, the Leases of all shards, and the layout. After a
// change to fewer shards, there are more Leases than shards.
type View struct {
	// Replicas are the replicas that have a share of the shards. A replica that stops, or has not renewed its Lease
	// recently, has no share, but keeps its shards as long as its Lease is valid.
	Replicas []string
	// Renewed are the Replicas that have renewed their Leases since this process first saw them. The other Replicas may
	// have ended before this process started.
	Renewed []string
	// Leader is the Lease of the leader, which writes the layout. Leader is zero if the leader's own Lease as a replica is
	// deleted or has expired. A leader without shards never has a Lease as a replica.
	Leader Lease
	Leases []Lease
	Layout Layout
}

// owned returns the shards that a replica owns.
func (v View) owned(replica string) (shards []int) {
	for shard, lease := range v.Leases {
		if lease.Owner == replica {
			shards = append(shards, shard)
		}
	}
	return shards
}

// Free returns the shards of the layout that no replica owns.
func (v View) Free() (shards []int) {
	for shard := range v.Layout.Shards() {
		if shard >= len(v.Leases) || v.Leases[shard].Owner == "" {
			shards = append(shards, shard)
		}
	}
	return shards
}

// Take returns the free shards that a replica tries to acquire: the shards offered to it, and other free shards up to
// its share. The share is the number of shards divided by the number of replicas, rounded up. Take omits shards offered
// to another replica that runs.
func (v View) Take(self string) (shards []int) {
	replicas := slices.Clone(v.Replicas)
	if !slices.Contains(replicas, self) {
		replicas = append(replicas, self) // the Lease of the replica may not be visible yet
	}
	slices.Sort(replicas)
	share := (v.Layout.Shards() + len(replicas) - 1) / len(replicas)
	var free []int
	for _, shard := range v.Free() {
		switch to := v.offered(shard); {
		case to == self:
			shards = append(shards, shard)
		case !slices.Contains(replicas, to):
			free = append(free, shard)
		}
	}
	more := max(share-len(v.owned(self))-len(shards), 0)
	free = v.preferred(self, free, replicas, share)
	return append(shards, free[:min(len(free), more)]...)
}

// preferred returns the free shards in the order in which a replica tries to acquire them. It assigns each free shard,
// the heaviest first, to the replica with the least weight, so that all replicas have about the same number of objects.
// The shards assigned to self come first. All replicas compute the same assignment, so that two replicas seldom try to
// acquire the same shard.
func (v View) preferred(self string, free []int, replicas []string, share int) []int {
	owned, weights := map[string]int{}, map[string]int{}
	for _, replica := range replicas {
		shards := v.owned(replica)
		owned[replica], weights[replica] = len(shards), v.weightOf(shards)
	}
	var own, others []int
	slices.SortStableFunc(free, func(a, b int) int { return cmp.Compare(v.Layout.weight(b), v.Layout.weight(a)) })
	for _, shard := range free {
		to := slices.MinFunc(replicas, func(a, b string) int {
			return cmp.Or(cmp.Compare(owned[a]/share, owned[b]/share), cmp.Compare(weights[a], weights[b]),
				cmp.Compare(owned[a], owned[b]))
		})
		owned[to]++
		weights[to] += v.Layout.weight(shard)
		if to == self {
			own = append(own, shard)
		} else {
			others = append(others, shard)
		}
	}
	slices.Reverse(others) // The lightest first: taking a light shard of another replica changes the balance least.
	return append(own, others...)
}

func (v View) weightOf(shards []int) (weight int) {
	for _, shard := range shards {
		weight += v.Layout.weight(shard)
	}
	return weight
}

// offered returns the replica to which a free shard is offered, or "".
func (v View) offered(shard int) string {
	if shard >= len(v.Leases) {
		return ""
	}
	return v.Leases[shard].Offered
}

// Surplus returns the next shard that a replica releases, and the replica that should acquire this shard. ok is false
// if the replica keeps all its shards. If the replica owns a shard that the layout no longer has, Surplus returns this
// shard, and to is "". Otherwise, the replica keeps its shards while any shard is free. If no shard is free, to is the
// replica in Renewed with the fewest shards, and ok is the result of mayRelease. Surplus then chooses the shard whose
// release makes the numbers of objects of both replicas most equal.
func (v View) Surplus(self string) (shard int, to string, ok bool) {
	mine := v.owned(self)
	if len(mine) == 0 {
		return 0, "", false
	}
	last := mine[len(mine)-1]
	if last >= v.Layout.Shards() {
		return last, "", true
	}
	if len(v.Free()) > 0 || len(v.Renewed) == 0 {
		return 0, "", false // the other replica acquires the free shard first
	}
	to = slices.MinFunc(v.Renewed, func(a, b string) int {
		one, another := v.owned(a), v.owned(b)
		return cmp.Or(len(one)-len(another), v.weightOf(one)-v.weightOf(another))
	})
	more := v.weightOf(mine) - v.weightOf(v.owned(to))
	difference := func(shard int) int {
		after := more - 2*v.Layout.weight(shard)
		return max(after, -after)
	}
	slices.Reverse(mine) // of several shards with the same weight, MinFunc returns the last
	shard = slices.MinFunc(mine, func(a, b int) int { return difference(a) - difference(b) })
	return shard, to, v.mayRelease(self, to)
}

// mayRelease reports whether a replica may release a shard for the replica to now. Several replicas may release one
// shard each at the same time. The replicas with the most shards come first. A replica must have at least two shards
// more than the replica to has together with the shards that earlier replicas release for it. Without this rule, all
// replicas would release a shard, and some of these shards would have to move again.
func (v View) mayRelease(self, to string) bool {
	others := slices.DeleteFunc(slices.Clone(v.Renewed), func(replica string) bool {
		return replica == to || replica == self
	})
	turns := append(others, self)
	slices.SortFunc(turns, func(a, b string) int {
		one, another := v.owned(a), v.owned(b)
		return cmp.Or(len(another)-len(one), v.weightOf(another)-v.weightOf(one), cmp.Compare(a, b))
	})
	gets := len(v.owned(to))
	for _, replica := range turns {
		if len(v.owned(replica)) < gets+2 {
			return false
		}
		if replica == self {
			return true
		}
		gets++
	}
	return false
}

// MayWork reports whether the owner of a shard may begin to work with the layout: the layout has this shard, the leader
// has confirmed the layout, and no other owner may work with another layout. The caller must be the owner, and must
// have confirmed the layout before it read the Leases from the API server. A leader that has confirmed nothing may be
// an operator that works on all namespaces.
func (v View) MayWork(shard int) bool {
	id := v.Layout.ID()
	if shard >= v.Layout.Shards() || v.Leader.Confirmed != id {
		return false
	}
	for other, lease := range v.Leases {
		if other != shard && lease.Owner != "" && lease.Confirmed != id {
			return false
		}
	}
	return true
}

// Newest returns the version of the newest layout that the owner of a shard has confirmed.
func (v View) Newest() (version int64) {
	for _, lease := range v.Leases {
		version = max(version, versionIn(lease.Confirmed))
	}
	return version
}

// Owns reports whether a replica owns a shard.
func (v View) Owns(replica string, shard int) bool {
	return shard < len(v.Leases) && v.Leases[shard].Owner == replica
}

// Settled reports whether a replica that works on a number of shards waits for nothing: the replica works on all shards
// that it owns, all shards have an owner, and the replica has seen a renewal of the Lease of each replica.
func (v View) Settled(self string, works int) bool {
	return works == len(v.owned(self)) && len(v.Free()) == 0 && len(v.Renewed) == len(v.Replicas)
}

// Idle reports whether no replica owns a shard.
func (v View) Idle() bool {
	return !slices.ContainsFunc(v.Leases, func(l Lease) bool { return l.Owner != "" })
}
