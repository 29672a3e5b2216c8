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
	// renewedWithin is how long a replica has a share of the shards without a renewal of its Lease. A replica renews
	// its Lease every 2 s.
	renewedWithin = 5 * time.Second
	// OperatorLabel is the label of all Leases through which the replicas of an operator coordinate. Its value is the name
	// of the operator.
	OperatorLabel = controller.AnnotationDomain + "/replicas-of"
	// ConfirmedAnnotation on the Lease of a replica has the ID of the layout that the replica has confirmed.
	ConfirmedAnnotation = controller.AnnotationDomain + "/confirmed-layout"
	// StoppingAnnotation on the Lease of a replica says that the replica releases its shards and takes no more.
	StoppingAnnotation = controller.AnnotationDomain + "/stopping"
	// OfferedAnnotation on the Lease of a shard has the identity of the replica for which the previous owner has released
	// the shard.
	OfferedAnnotation = controller.AnnotationDomain + "/offered-to"
)

// LeaseName returns the name of the Lease of a shard. The Lease of a shard is not renewed: it is valid as long as the
// Lease of its owner.
func LeaseName(operator string, shard int) string {
	return fmt.Sprintf("%s-shard-%d", operator, shard)
}

// ReplicaLeaseName returns the name of the Lease with which a replica shows that it runs.
func ReplicaLeaseName(operator, identity string) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(identity))
	return fmt.Sprintf("%s-replica-%016x", operator, sum.Sum64())
}

// shardOf returns the shard of a Lease. ok is false for all other Leases.
func shardOf(operator, lease string) (shard int, ok bool) {
	number, ok := strings.CutPrefix(lease, operator+"-shard-")
	shard, err := strconv.Atoi(number)
	return shard, ok && err == nil && shard >= 0 && shard < Max && number == strconv.Itoa(shard)
}

// Observer finds out which replicas run. A replica is gone when this process has seen no renewal of its Lease for
// LeaseDuration, by its own clock, because the clocks of other replicas may differ. client-go/tools/leaderelection does
// the same.
type Observer struct {
	operator string
	clock    clock.PassiveClock

	mu       sync.Mutex
	observed map[string]observation // by the name of the Lease
	owners   map[int]string         // by shard, according to the last View
	asked    time.Time              // the time of the last View
}

// observation records when this process first saw a version of a Lease.
type observation struct {
	version  string // "" if the Lease does not exist
	previous string // the version before version
	at       time.Time
	renewed  bool // this process has seen another version before
}

// has reports whether version is the observed or the previous version of the Lease. The previous version can appear
// again, because a watch and a list show the same renewal at different times. Any other version is a renewal, even a
// lower version, for example after a restore of etcd.
func (o observation) has(version string) bool {
	return version == o.version || version != "" && version == o.previous
}

// NewObserver returns an Observer of the Leases of an operator.
func NewObserver(operator string, clk clock.PassiveClock) *Observer {
	return &Observer{operator: operator, clock: clk, observed: map[string]observation{}}
}

// Observe records the time of a renewal from a watch. This time is more exact than the time of the next list passed to
// View.
func (o *Observer) Observe(lease *coordinationv1.Lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, known := o.observed[lease.Name]; !before.has(lease.ResourceVersion) {
		o.observed[lease.Name] = observation{lease.ResourceVersion, before.version, o.clock.Now(), known}
	}
}

// View returns the View that follows from a list of the Leases of an operator. asked is when the list was requested: a
// replica may have renewed its Lease while the response was on its way.
func (o *Observer) View(leases []coordinationv1.Lease, layout Layout, asked time.Time) View {
	o.mu.Lock()
	defer o.mu.Unlock()
	byName := map[string]*coordinationv1.Lease{}
	for i := range leases {
		byName[leases[i].Name] = &leases[i]
	}
	r := reading{o.operator, o.clock, asked, byName, o.owners, o.observed, map[string]observation{}}
	v := View{Layout: layout}
	for i := range leases {
		lease := &leases[i]
		holder := holderOf(lease)
		shard, ok := shardOf(o.operator, lease.Name)
		switch {
		case ok && holder == "":
			v.set(shard, Lease{Offered: lease.Annotations[OfferedAnnotation]})
		case ok:
			v.set(shard, r.leaseOf(holder))
		case holder == "":
		case lease.Name == o.operator && r.isValid(lease.Name):
			v.Leader = r.leaseOfLeader(holder)
		case lease.Name == ReplicaLeaseName(o.operator, holder) && r.isValid(lease.Name):
			if observed := r.observe(lease.Name); asked.Sub(observed.at) <= renewedWithin && !IsStopping(lease) {
				v.Replicas = append(v.Replicas, holder)
				if observed.renewed {
					v.Renewed = append(v.Renewed, holder)
				}
			}
		}
	}
	r.addDeleted(&v)
	o.observed, o.owners, o.asked = r.current, v.owners(), asked
	return v
}

// UntilExpiry returns how long the Leases that were valid in the last View stay valid without a renewal: the shortest
// of these times, and at most LeaseDuration.
func (o *Observer) UntilExpiry() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	shortest := LeaseDuration
	for _, observed := range o.observed {
		if o.asked.Sub(observed.at) <= LeaseDuration {
			shortest = min(shortest, max(0, LeaseDuration-o.clock.Since(observed.at))+1)
		}
	}
	return shortest
}

// set records the Lease of a shard.
func (v *View) set(shard int, lease Lease) {
	for lease != (Lease{}) && len(v.Leases) <= shard {
		v.Leases = append(v.Leases, Lease{})
	}
	if shard < len(v.Leases) {
		v.Leases[shard] = lease
	}
}

// owners returns the owner of each shard that has one.
func (v *View) owners() map[int]string {
	owners := map[int]string{}
	for shard, lease := range v.Leases {
		if lease.Owner != "" {
			owners[shard] = lease.Owner
		}
	}
	return owners
}

// Gone returns the Leases of replicas that have expired. leases must be the argument of the last call of View. Gone
// omits a replica that another Lease names as its holder: after the deletion of the Lease of the replica, the other
// Lease would count as valid for LeaseDuration (see isValid).
func (o *Observer) Gone(leases []coordinationv1.Lease) (gone []coordinationv1.Lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	named := map[string]int{} // the number of Leases that name a holder
	for i := range leases {
		named[holderOf(&leases[i])]++
	}
	for i := range leases {
		name, holder := leases[i].Name, holderOf(&leases[i])
		if name == ReplicaLeaseName(o.operator, holder) && named[holder] == 1 &&
			o.asked.Sub(o.observed[name].at) > LeaseDuration {
			gone = append(gone, leases[i])
		}
	}
	return gone
}

// Abandoned returns the Leases of surplus shards whose owners are gone. A shard is surplus if the layout does not have
// it, so no other replica acquires its Lease. leases must be the argument of the last call of View.
func (o *Observer) Abandoned(leases []coordinationv1.Lease, layout Layout) (abandoned []coordinationv1.Lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range leases {
		shard, ok := shardOf(o.operator, leases[i].Name)
		if ok && shard >= layout.Shards() && holderOf(&leases[i]) != "" && o.owners[shard] == "" {
			abandoned = append(abandoned, leases[i])
		}
	}
	return abandoned
}

// IsStopping reports whether the Lease of a replica says that the replica stops.
func IsStopping(lease *coordinationv1.Lease) bool {
	_, stopping := lease.Annotations[StoppingAnnotation]
	return stopping
}

func holderOf(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }

// reading evaluates one list of Leases.
type reading struct {
	operator string
	clock    clock.PassiveClock
	asked    time.Time
	leases   map[string]*coordinationv1.Lease
	owners   map[int]string         // by shard, in the previous View
	before   map[string]observation // by the name of the Lease, from earlier lists and from the watch
	current  map[string]observation // by the name of the Lease
}

// leaseOf returns a Lease with this owner, and with the layout that the owner has confirmed. The Lease is free if the
// owner's own Lease is not valid.
func (r reading) leaseOf(owner string) Lease {
	name := ReplicaLeaseName(r.operator, owner)
	if !r.isValid(name) {
		return Lease{}
	}
	if own := r.leases[name]; own != nil {
		return Lease{Owner: owner, Confirmed: own.Annotations[ConfirmedAnnotation]}
	}
	return Lease{Owner: owner}
}

// leaseOfLeader returns the Lease of the leader, with the layout that the leader has confirmed. The Lease is free if
// the leader had a Lease of its own that was deleted or has expired.
func (r reading) leaseOfLeader(leader string) Lease {
	lease := r.leaseOf(leader)
	own := r.observe(ReplicaLeaseName(r.operator, leader))
	if everExisted := own.version != "" || own.renewed; everExisted && (own.version == "" || lease.Owner == "") {
		return Lease{} // the leader's own Lease is deleted, or has expired before the Lease of the leader
	}
	return Lease{Owner: leader, Confirmed: lease.Confirmed}
}

// addDeleted adds the shards whose Leases somebody has deleted. Their owners keep these shards for LeaseDuration,
// because an owner may not have noticed the deletion yet.
func (r reading) addDeleted(v *View) {
	for shard, owner := range r.owners {
		if name := LeaseName(r.operator, shard); r.leases[name] == nil && r.isValid(name) {
			v.set(shard, r.leaseOf(owner))
		}
	}
}

// isValid reports whether the Lease of a replica or of the leader was renewed within LeaseDuration. A deleted Lease
// stays valid for the same time, because its holder may not have noticed the deletion yet.
func (r reading) isValid(name string) bool {
	return r.asked.Sub(r.observe(name).at) <= LeaseDuration
}

// observe returns the observation of a Lease, and records it. The observation is new if this process sees the version
// of the Lease for the first time.
func (r reading) observe(name string) observation {
	if now, ok := r.current[name]; ok {
		return now
	}
	version := ""
	if lease := r.leases[name]; lease != nil {
		version = lease.ResourceVersion
	}
	now, known := r.before[name]
	if !known || !now.has(version) {
		now = observation{version, now.version, r.clock.Now(), known}
	}
	r.current[name] = now
	return now
}
