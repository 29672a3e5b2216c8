package process

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

// patience is the timeout of eventually. The awaited conditions hold almost at once.
const patience = time.Minute

const leaseName = "windlass-controller"

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// lease returns the Lease of the installation from the server.
func lease(t *testing.T, client *fake.Clientset) *coordinationv1.Lease {
	t.Helper()
	return leaseIn(t, client, "windlass-system")
}

// leaseIn returns the Lease in a namespace from the server.
func leaseIn(t *testing.T, client *fake.Clientset, namespace string) *coordinationv1.Lease {
	t.Helper()
	got, err := client.Tracker().Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), namespace, leaseName)
	if err != nil {
		t.Fatal(err)
	}
	return got.(*coordinationv1.Lease)
}

// holder returns the holder of the installation's Lease, or "".
func holder(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	return ptr.Deref(lease(t, client).Spec.HolderIdentity, "")
}

func TestExpiredLeaseIsAcquiredImmediately(t *testing.T) {
	client := fake.NewClientset(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "windlass-system", Name: leaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("killed"), LeaseDurationSeconds: ptr.To[int32](3 * 60 * 60),
			RenewTime: &metav1.MicroTime{Time: time.Now()}, AcquireTime: &metav1.MicroTime{Time: time.Now()},
		},
	})
	// The test sends the events of the watches. One of the watches may have ended already.
	begun := make(chan *watch.RaceFreeFakeWatcher, 2)
	client.PrependWatchReactor("leases", func(clienttesting.Action) (bool, watch.Interface, error) {
		watcher := watch.NewRaceFreeFake()
		begun <- watcher
		return true, watcher, nil
	})
	e, clock := newElection(Lease{client, "windlass-system", leaseName, "second"}), clocktesting.NewFakeClock(time.Now())
	patiently(e)
	e.clock = clock
	e.term.renew(time.Now()) // an earlier attempt acquired the Lease, but ended before it led
	var working atomic.Bool
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.run(ctx, func() { working.Store(true) }) }()
	watcher := <-begun
	// If the Lease were free at the first GET, the elector would acquire it without an event.
	eventually(t, "it to find the Lease held", func() bool {
		return slices.ContainsFunc(client.Actions(), func(a clienttesting.Action) bool { return a.Matches("get", "leases") })
	})
	watcher.Modify(lease(t, client))
	eventually(t, "it to wait for the expiry", clock.HasWaiters)
	clock.Step(3*time.Hour - 1)
	if got := holder(t, client); got != "killed" {
		t.Errorf("before it expired the lease was taken by %q", got)
	}
	clock.Step(1)
	eventually(t, "the lease to be released", func() bool { return holder(t, client) == "" })
	watcher.Modify(lease(t, client))
	eventually(t, "it to lead", working.Load)
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with: %v", err)
	}
}

func TestLeaseIsNotReleasedWhileReconcileRuns(t *testing.T) {
	client := fake.NewClientset()
	ctx, abandon := context.WithCancelCause(t.Context())
	working := make(chan struct{})
	ended := make(chan error, 1)
	e := newElection(Lease{client, "windlass-system", leaseName, "stuck"})
	go func() { ended <- e.run(ctx, func() { close(working) }) }()
	<-working
	abandon(errAbandoned)
	if err := <-ended; err != nil {
		t.Errorf("it ended with: %v", err)
	}
	if got := holder(t, client); got != "stuck" {
		t.Errorf("the lease was given to %q", got)
	}
}
