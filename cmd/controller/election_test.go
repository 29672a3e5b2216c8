package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
)

// patience bounds a wait for what happens at once.
const patience = time.Minute

// candidate is one process that stands for election, with times so long that
// nothing happens because they have passed.
type candidate struct {
	*election
	working atomic.Bool
	stop    context.CancelFunc
	result  chan error
}

func stand(t *testing.T, client *fake.Clientset, identity string, tolerated time.Duration) *candidate {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := &candidate{
		election: newElection(client, "windlass-system", identity, leaderelection.NewLeaderHealthzAdaptor(tolerated)),
		stop:     stop, result: make(chan error, 1),
	}
	c.duration, c.deadline, c.period = 3*time.Hour, 2*time.Hour, time.Hour
	go func() { c.result <- c.run(ctx, func() { c.working.Store(true) }) }()
	return c
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, patience, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// watches is how many watches of leases were begun.
func watches(client *fake.Clientset) (n int) {
	for _, action := range client.Actions() {
		if action.Matches("watch", "leases") {
			n++
		}
	}
	return n
}

func holder(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	lease, err := client.Tracker().Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), "windlass-system", leaseName)
	if err != nil {
		return ""
	}
	if id := lease.(*coordinationv1.Lease).Spec.HolderIdentity; id != nil {
		return *id
	}
	return ""
}

func TestALeaseThatIsGivenBackIsTakenAtOnce(t *testing.T) {
	client := fake.NewClientset()
	first := stand(t, client, "first", 0)
	eventually(t, "the first to lead", first.working.Load)
	begun := watches(client)
	second := stand(t, client, "second", 0)
	eventually(t, "the second to watch", func() bool { return watches(client) > begun })
	if second.working.Load() {
		t.Fatal("two lead at once")
	}
	first.stop()
	if err := <-first.result; err != nil {
		t.Errorf("the first ended with: %v", err)
	}
	eventually(t, "the second to lead", second.working.Load)
	if got := holder(t, client); got != "second" {
		t.Errorf("the lease is held by %q", got)
	}
	second.stop()
	if err := <-second.result; err != nil {
		t.Errorf("the second ended with: %v", err)
	}
	if got := holder(t, client); got != "" {
		t.Errorf("the lease was left to %q", got)
	}
}

func TestALeaseThatIsLostEndsTheProcess(t *testing.T) {
	client := fake.NewClientset()
	var refuse atomic.Bool
	client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refuse.Load(), nil, errors.New("no answer")
	})
	lost := newElection(client, "windlass-system", "second", leaderelection.NewLeaderHealthzAdaptor(time.Hour))
	lost.duration, lost.deadline, lost.period = 400*time.Millisecond, 200*time.Millisecond, 20*time.Millisecond
	err := lost.run(t.Context(), func() { refuse.Store(true) })
	if !errors.Is(err, errLeaseLost) {
		t.Errorf("a process that cannot renew its lease ended with: %v", err)
	}
}

func TestTheWatchdogSeesALeaseThatIsNotRenewed(t *testing.T) {
	for name, c := range map[string]struct {
		tolerated time.Duration
		healthy   bool
	}{
		"in time":  {0, true},
		"too late": {-4 * time.Hour, false}, // of a lease of 3 h
	} {
		t.Run(name, func(t *testing.T) {
			candidate := stand(t, fake.NewClientset(), "first", c.tolerated)
			eventually(t, "it to lead", candidate.working.Load)
			if err := candidate.watchdog.Check(nil); (err == nil) != c.healthy {
				t.Errorf("the watchdog says: %v", err)
			}
			candidate.stop()
			if err := <-candidate.result; err != nil {
				t.Errorf("it ended with: %v", err)
			}
		})
	}
}
