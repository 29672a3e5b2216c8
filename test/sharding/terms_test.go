//go:build integration

package sharding

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"windlass.dev/windlass/pkg/sharding/shards"
	"windlass.dev/windlass/test/framework"
)

// operator is the name of the operator's Leases.
const operator = "windlass-controller"

// term is the time in which a replica owned a shard. The ID of its token identifies the replica.
type term struct {
	replica    string
	begin, end time.Time // end is zero while the term lasts
	released   bool      // whether the replica has released the Lease, after its work has ended
}

// The longest times that a shard may have no owner, by cause. A Lease is valid for 15 s.
const releaseLimit, expiryLimit = 2 * time.Second, shards.LeaseDuration + 5*time.Second

var limits = map[string]time.Duration{"released": releaseLimit, "expired": expiryLimit}

// terms derives the terms of each shard from the writes to its Lease. A write by the owner counts as a release, and any
// other write as an acquisition. terms therefore misinterprets a second write by the owner after a failed release
// (coordinator.supersedeRelease). requests must be in the order in which the API server received them.
func terms(requests []framework.Request) map[string][]term {
	all := map[string][]term{}
	for _, r := range requests {
		name := r.ObjectRef.Name
		if r.ObjectRef.Resource != "leases" || !strings.HasPrefix(name, operator+"-shard-") || r.ResponseStatus.Code >= 400 {
			continue
		}
		of := all[name]
		replica, at := r.User.Credential(), r.RequestReceivedTimestamp
		held := len(of) > 0 && of[len(of)-1].end.IsZero()
		if held {
			of[len(of)-1].end, of[len(of)-1].released = at, of[len(of)-1].replica == replica
		}
		if !held || of[len(of)-1].replica != replica {
			of = append(of, term{replica: replica, begin: at})
		}
		all[name] = of
	}
	return all
}

// unowned returns how long each shard had no owner after each term, by cause. After an expired Lease, the time begins
// with the last write of the replica, because the audit log shows no later activity.
func unowned(requests []framework.Request) map[string][]time.Duration {
	times := map[string][]time.Duration{}
	for _, of := range terms(requests) {
		for i, next := range of[1:] {
			previous := of[i]
			cause, since := "released", previous.end
			if !previous.released {
				cause, since = "expired", lastWrite(requests, previous.replica, next.begin)
			}
			times[cause] = append(times[cause], next.begin.Sub(since))
		}
	}
	return times
}

// lastWrite returns the time of the last write of a replica before the given time.
func lastWrite(requests []framework.Request, replica string, before time.Time) (at time.Time) {
	for _, r := range requests {
		if r.User.Credential() == replica && r.RequestReceivedTimestamp.Before(before) {
			at = r.RequestReceivedTimestamp
		}
	}
	return at
}

// outsideOfTerms returns the writes that a replica sent to a namespace while the replica did not own the shard.
func outsideOfTerms(requests []framework.Request, layout shards.Layout, tenants []string) (wrong []string) {
	all := terms(requests)
	for _, r := range requests {
		if r.User.Credential() == "" {
			wrong = append(wrong, fmt.Sprintf("%s: the audit log does not say which replica sent it", r))
		}
		if !slices.Contains(tenants, r.ObjectRef.Namespace) {
			continue
		}
		shard := shards.LeaseName(operator, layout.ShardOf(r.ObjectRef.Namespace))
		inTerm := slices.ContainsFunc(all[shard], func(t term) bool {
			return t.replica == r.User.Credential() && !r.RequestReceivedTimestamp.Before(t.begin) &&
				(t.end.IsZero() || r.RequestReceivedTimestamp.Before(t.end))
		})
		if !inTerm {
			wrong = append(wrong,
				fmt.Sprintf("%s %s by %s: %d, terms of %s: %v", r.RequestReceivedTimestamp.Format(time.StampMicro), r,
					r.User.Credential(), r.ResponseStatus.Code, shard, all[shard]))
		}
	}
	return wrong
}

// writes returns the writes of the operator, in the order in which the API server received them.
func writes(c *framework.Cluster) ([]framework.Request, error) {
	sent, err := c.Requests(func(r framework.Request) bool {
		return r.User.Username == framework.ControllerUser && slices.Contains([]string{
			"create", "update", "patch", "delete",
		}, r.Verb)
	})
	slices.SortStableFunc(sent, func(a, b framework.Request) int {
		return a.RequestReceivedTimestamp.Compare(b.RequestReceivedTimestamp)
	})
	return sent, err
}
