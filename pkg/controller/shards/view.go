package shards

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/controller"
)

const (
	// Max is the largest number of shards.
	Max = 256
	// OperatorLabel is the label of all Leases through which the replicas of an operator coordinate. Its value is the name
	// of the operator.
	OperatorLabel = controller.AnnotationDomain + "/replicas-of"
	// ConfirmedAnnotation on the Lease of a replica has the ID of the layout that the replica has confirmed.
	ConfirmedAnnotation = controller.AnnotationDomain + "/confirmed-layout"
)

// LeaseName returns the name of the Lease of a shard. The Lease of the first shard has the name of the operator, as the Lease
// of an operator without shards has.
func LeaseName(operator string, shard int) string {
	if shard == 0 {
		return operator
	}
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
	if lease == operator {
		return 0, true
	}
	number, ok := strings.CutPrefix(lease, operator+"-shard-")
	shard, err := strconv.Atoi(number)
	return shard, ok && err == nil && shard > 0 && shard < Max
}

// Observer finds out which Leases are valid. A Lease is valid until this process has seen no renewal for the duration of the
// Lease, by its own clock, because the clocks of other replicas may differ. (As in client-go/tools/leaderelection.)
type Observer struct {
	operator string
	clock    clock.PassiveClock
	seen     map[string]sighting // by the name of the Lease
}

// sighting is when a process has first seen a version of a Lease.
type sighting struct {
	version string
	at      time.Time
}

// NewObserver returns an Observer of the Leases of an operator.
func NewObserver(operator string, clk clock.PassiveClock) *Observer {
	return &Observer{operator: operator, clock: clk, seen: map[string]sighting{}}
}

// View returns what the Leases of all shards and replicas say. It must be called with all of these Leases. asked is when they
// were requested: a holder may have renewed its Lease while the response was on its way.
func (o *Observer) View(leases []*coordinationv1.Lease, layout Layout, asked time.Time) View {
	v, confirmed, holders := View{Layout: layout}, map[string]string{}, map[int]string{}
	seen := map[string]sighting{}
	for _, lease := range leases {
		if s, known := o.seen[lease.Name]; known && s.version == lease.ResourceVersion {
			seen[lease.Name] = s
		} else {
			seen[lease.Name] = sighting{lease.ResourceVersion, o.clock.Now()}
		}
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		if holder == "" || asked.Sub(seen[lease.Name].at) > time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0))*time.Second {
			continue
		}
		if shard, ok := shardOf(o.operator, lease.Name); ok {
			holders[shard] = holder
		} else if lease.Name == ReplicaLeaseName(o.operator, holder) {
			v.Replicas = append(v.Replicas, holder)
			confirmed[holder] = lease.Annotations[ConfirmedAnnotation]
		}
	}
	o.seen = seen
	for shard, holder := range holders {
		for len(v.Leases) <= shard {
			v.Leases = append(v.Leases, Lease{})
		}
		v.Leases[shard] = Lease{Holder: holder, Confirmed: confirmed[holder]}
	}
	return v
}
