//go:build integration

package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/test/framework"
)

// pair is a cluster with two controllers: a leader and a standby.
type pair struct {
	*framework.Installation
	leader, standby *framework.Process
	identity        string // the identity of the leader in the Lease
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{Installation: framework.Own(t)}
	p.leader = framework.Launch(t, p.Cluster)
	framework.Eventually(t, "the first controller to lead", func(ctx context.Context) (bool, error) {
		p.identity = p.holder(ctx)
		return p.identity != "", nil
	})
	p.standby = framework.Launch(t, p.Cluster, "--webhook-url", p.leader.WebhookURL)
	t.Cleanup(func() { p.standby.Terminate() })
	return p
}

// holder returns the identity of the Lease's holder, or "".
func (p *pair) holder(ctx context.Context) string {
	lease, err := p.Kube.CoordinationV1().Leases("windlass-system").Get(ctx, "windlass-controller", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// takeOver waits until the standby leads, and returns the duration of the wait.
func (p *pair) takeOver(t *testing.T) time.Duration {
	t.Helper()
	begun := time.Now()
	framework.Eventually(t, "the standby to lead", func(ctx context.Context) (bool, error) {
		now := p.holder(ctx)
		return now != "" && now != p.identity, nil
	})
	return time.Since(begun)
}

func TestStandbyTakesOverWithoutListing(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	opened := len(listsAndWatches(t, p.Cluster))
	if code := p.leader.Terminate(); code != 0 {
		t.Fatalf("the leader ended with exit code %d; its log:\n%s", code, p.leader.Log.String())
	}
	t.Logf("after SIGTERM to the leader, the standby led within %v", p.takeOver(t))
	populate(t, p.Installation, 0, population, time.Second)
	waitAllDone(t, p.Installation)
	// The audit log records a watch only when the watch ends, so it lacks the standby's watches, which are still running.
	for _, request := range listsAndWatches(t, p.Cluster)[opened:] {
		// A new leader lists the Leases once, to find replicas that work on shards.
		if strings.HasPrefix(request, "list") && !strings.HasPrefix(request, "list leases") {
			t.Errorf("the standby listed objects to take over: %s", request)
		}
	}
}

func TestStandbyTakesOverFromKilledLeader(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	populate(t, p.Installation, 0, population, 10*time.Second)
	framework.Eventually(t, "the leader to send requests", func(context.Context) (bool, error) {
		return len(atAndPodWrites(t, p.Cluster)) > population, nil
	})
	p.leader.Kill()
	t.Logf("after SIGKILL to the leader, the standby led within %v, with a Lease of 15 s", p.takeOver(t))
	waitAllDone(t, p.Installation)
}
