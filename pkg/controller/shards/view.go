package shards

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller"
)

const (
	// Max is the largest number of shards.
	Max = 256
	// LeaseDuration is how long the Lease of a replica is valid without a renewal.
	LeaseDuration = 15 * time.Second
	// renewedWithin is how long a replica has a share of the shards without a renewal of its Lease. It renews its Lease every 2 s.
	renewedWithin = 5 * time.Second
	// OperatorLabel is the label of all Leases through which the replicas of an operator coordinate. Its value is the name
	// of the operator.
	OperatorLabel = controller.AnnotationDomain + "/replicas-of"
	// ConfirmedAnnotation on the Lease of a replica has the ID of the layout that the replica has confirmed.
	ConfirmedAnnotation = controller.AnnotationDomain + "/confirmed-layout"
	// OfferedAnnotation on the Lease of a shard has the identity of the replica for which the former holder has released it.
	OfferedAnnotation = controller.AnnotationDomain + "/offered-to"
)

// LeaseName returns the name of the Lease of a shard. It is not renewed: it is valid as long as the Lease of its holder.
func LeaseName(operator string, shard int) string {
	return fmt.Sprintf("%s-shard-%d", operator, shard)
}

// ReplicaLeaseName returns the name of the Lease with which a replica shows that it runs.
func ReplicaLeaseName(operator, identity string) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(identity))
	return fmt.Sprintf("%s-replica-%016x", operator, sum.Sum64())
}

// shardOf returns the shard that a Lease is for.
func shardOf(operator, lease string) (shard int, ok bool) {
	number, ok := strings.CutPrefix(lease, operator+"-shard-")
	shard, err := strconv.Atoi(number)
	return shard, ok && err == nil && shard >= 0 && shard < Max && number == strconv.Itoa(shard)
}

// Observer finds out which replicas run. A replica is gone when this process has seen no renewal of its Lease for
// LeaseDuration, by its own clock, because the clocks of other replicas may differ. (As in client-go/tools/leaderelection.)
type Observer struct {
	operator string
	clock    clock.PassiveClock

	mu      sync.Mutex
	seen    map[string]sighting // by the name of the Lease
	holders map[int]string      // by shard, according to the last View
	asked   time.Time           // the time of the last View
}

// sighting is when a process has first seen a version of a Lease.
type sighting struct {
	version  string // "" if the Lease does not exist
	previous string // the version before
	at       time.Time
	renewed  bool // this process has seen another version before
}

// has reports whether a version of the Lease was seen before. That may be the previous version, because a watch and a list show the same
// renewal at different times. Any other version is a renewal, even if it is lower, as after a restore of etcd.
func (s sighting) has(version string) bool {
	return version == s.version || version != "" && version == s.previous
}

// NewObserver returns an Observer of the Leases of an operator.
func NewObserver(operator string, clk clock.PassiveClock) *Observer {
	return &Observer{operator: operator, clock: clk, seen: map[string]sighting{}}
}

// Saw tells the observer about a renewal, so that it knows the time better than from the Leases passed to View.
func (o *Observer) Saw(lease *coordinationv1.Lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, known := o.seen[lease.Name]; !before.has(lease.ResourceVersion) {
		o.seen[lease.Name] = sighting{lease.ResourceVersion, before.version, o.clock.Now(), known}
	}
}

// View returns what the Leases of an operator say. asked is when they were requested: a holder may have renewed its Lease while the
// response was on its way.
func (o *Observer) View(leases []coordinationv1.Lease, layout Layout, asked time.Time) View {
	o.mu.Lock()
	defer o.mu.Unlock()
	byName := map[string]*coordinationv1.Lease{}
	for i := range leases {
		byName[leases[i].Name] = &leases[i]
	}
	look := look{o, byName, asked, map[string]sighting{}}
	v := View{Layout: layout}
	for i := range leases {
		lease := &leases[i]
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		shard, ok := shardOf(o.operator, lease.Name)
		switch {
		case ok && holder == "":
			v.set(shard, Lease{Offered: lease.Annotations[OfferedAnnotation]})
		case ok:
			v.set(shard, look.of(holder))
		case holder == "":
		case lease.Name == o.operator && look.valid(lease.Name):
			v.Leader = look.leader(holder)
		case lease.Name == ReplicaLeaseName(o.operator, holder) && look.valid(lease.Name):
			if seen := look.seen[lease.Name]; asked.Sub(seen.at) <= renewedWithin {
				v.Replicas = append(v.Replicas, holder)
				if seen.renewed {
					v.Renewed = append(v.Renewed, holder)
				}
			}
		}
	}
	look.addDeleted(&v)
	o.seen, o.holders, o.asked = look.seen, v.holders(), asked
	return v
}

// UntilExpiry returns the time after which a Lease that was valid in the last View is no longer valid, unless its holder renews it. It
// returns the shortest of these times, and at most LeaseDuration.
func (o *Observer) UntilExpiry() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	shortest := LeaseDuration
	for _, seen := range o.seen {
		if o.asked.Sub(seen.at) <= LeaseDuration {
			shortest = min(shortest, max(0, LeaseDuration-o.clock.Since(seen.at))+1)
		}
	}
	return shortest
}

// set records what the Lease of a shard says.
func (v *View) set(shard int, lease Lease) {
	for lease != (Lease{}) && len(v.Leases) <= shard {
		v.Leases = append(v.Leases, Lease{})
	}
	if shard < len(v.Leases) {
		v.Leases[shard] = lease
	}
}

// holders returns the holder of each shard that is held.
func (v *View) holders() map[int]string {
	holders := map[int]string{}
	for shard, lease := range v.Leases {
		if lease.Holder != "" {
			holders[shard] = lease.Holder
		}
	}
	return holders
}

// Gone returns the Leases of replicas that were not renewed for a multiple of LeaseDuration, according to the last View.
func (o *Observer) Gone(leases []coordinationv1.Lease, multiple int) (gone []coordinationv1.Lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, lease := range leases {
		s, known := o.seen[lease.Name]
		replica := lease.Name == ReplicaLeaseName(o.operator, ptr.Deref(lease.Spec.HolderIdentity, ""))
		if replica && known && s.version == lease.ResourceVersion && o.clock.Since(s.at) > time.Duration(multiple)*LeaseDuration {
			gone = append(gone, lease)
		}
	}
	return gone
}

// look is one look at all Leases.
type look struct {
	*Observer
	leases map[string]*coordinationv1.Lease
	asked  time.Time
	seen   map[string]sighting
}

// of returns what a replica sees of a Lease with this holder. The Lease counts as free if the holder's own Lease is not valid.
func (l look) of(holder string) Lease {
	name := ReplicaLeaseName(l.operator, holder)
	if !l.valid(name) {
		return Lease{}
	}
	if own := l.leases[name]; own != nil {
		return Lease{Holder: holder, Confirmed: own.Annotations[ConfirmedAnnotation]}
	}
	return Lease{Holder: holder}
}

// leader returns what a replica sees of the Lease of the leader with this holder.
func (l look) leader(holder string) Lease {
	lease := l.of(holder)
	seen := l.seen[ReplicaLeaseName(l.operator, holder)]
	if everExisted := seen.version != "" || seen.renewed; everExisted && (seen.version == "" || lease.Holder == "") {
		return Lease{} // its Lease of a replica is deleted, or has expired before that of the leader
	}
	return Lease{Holder: holder, Confirmed: lease.Confirmed}
}

// addDeleted adds the shards whose Leases somebody has deleted. Their holders keep them for LeaseDuration, because they may not know it
// yet.
func (l look) addDeleted(v *View) {
	for shard, holder := range l.holders {
		if name := LeaseName(l.operator, shard); l.leases[name] == nil && l.valid(name) {
			v.set(shard, l.of(holder))
		}
	}
}

// valid reports whether the Lease of a replica or of the leader was renewed within LeaseDuration. A Lease that somebody has deleted
// is valid for as long, because its holder may not know it yet.
func (l look) valid(name string) bool {
	version := ""
	if lease := l.leases[name]; lease != nil {
		version = lease.ResourceVersion
	}
	before, known := l.Observer.seen[name]
	if known && before.has(version) {
		l.seen[name] = before
	} else if _, looked := l.seen[name]; !looked {
		l.seen[name] = sighting{version, before.version, l.clock.Now(), known}
	}
	return l.asked.Sub(l.seen[name].at) <= LeaseDuration
}
