//go:build integration

package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/test/place"
	"windlass.dev/windlass/test/world"
)

// pair is two controllers on a cluster of their own: one leads, one stands by.
type pair struct {
	*place.Place
	leader, standby *place.Process
	identity        string // the leader's
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{Place: ownPlace(t)}
	p.leader = place.Launch(t, p.Cluster)
	world.Eventually(t, "the first to lead", func(ctx context.Context) (bool, error) {
		p.identity = p.holder(ctx)
		return p.identity != "", nil
	})
	p.standby = place.Launch(t, p.Cluster, "--webhook-url", p.leader.WebhookURL)
	t.Cleanup(func() { p.standby.Terminate() })
	return p
}

// holder is who holds the lease, if anybody does.
func (p *pair) holder(ctx context.Context) string {
	lease, err := p.Kube.CoordinationV1().Leases("windlass-system").Get(ctx, "windlass-controller", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// takeOver waits until the standby leads, and returns how long that took.
func (p *pair) takeOver(t *testing.T) time.Duration {
	t.Helper()
	begun := time.Now()
	world.Eventually(t, "the standby to lead", func(ctx context.Context) (bool, error) {
		now := p.holder(ctx)
		return now != "" && now != p.identity, nil
	})
	return time.Since(begun)
}

func TestAStandbyTakesOverWithoutAList(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	opened := len(listsAndWatches(t, p.Cluster))
	if code := p.leader.Terminate(); code != 0 {
		t.Fatalf("the leader ended with exit code %d; its log:\n%s", code, p.leader.Log.String())
	}
	t.Logf("after the leader's end by SIGTERM the standby led within %v", p.takeOver(t))
	populate(t, p.Place, 0, population, time.Second)
	allDone(t, p.Place)
	// Watches are answered when they end: the leader's all have, the standby's none.
	for _, request := range listsAndWatches(t, p.Cluster)[opened:] {
		if strings.HasPrefix(request, "list") {
			t.Errorf("taking over took a list: %s", request)
		}
	}
}

func TestAStandbyTakesOverFromALeaderThatWasKilled(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	populate(t, p.Place, 0, population, 10*time.Second)
	world.Eventually(t, "the leader to be at work", func(context.Context) (bool, error) {
		return len(controllerRequests(t, p.Cluster)) > population, nil
	})
	p.leader.Kill()
	t.Logf("after the leader's end by SIGKILL the standby led within %v, with a lease of 15 s", p.takeOver(t))
	allDone(t, p.Place)
}
