package process

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// installation is a process that competes for two Leases: one for its namespace and one for the cluster.
type installation struct {
	elections elections
	working   atomic.Bool
	stop      context.CancelFunc
	result    chan error
}

func install(t *testing.T, client *fake.Clientset, namespace string, adjust func(*election)) *installation {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	i := &installation{elections: newElections([]Lease{
		{client, namespace, leaseName, "self"}, {client, metav1.NamespaceSystem, leaseName, namespace + "/self"},
	}, false), stop: stop, result: make(chan error, 1)}
	for _, e := range i.elections {
		adjust(e)
	}
	go func() { i.result <- elect(ctx, i.elections, func() { i.working.Store(true) }) }()
	return i
}

func patiently(e *election) {
	e.duration, e.deadline, e.period = 3*time.Hour, 2*time.Hour, time.Hour
}

// TestOnlyOneInstallationLeads uses elections whose times are so long that only the watch can show a released Lease in
// time.
func TestOnlyOneInstallationLeads(t *testing.T) {
	client := fake.NewClientset()
	first := install(t, client, "one", patiently)
	eventually(t, "the first to work", first.working.Load)
	second := install(t, client, "two", patiently)
	eventually(t, "the second to find the cluster's Lease held", func() bool {
		gets := 0
		for _, a := range client.Actions() {
			if a.Matches("get", "leases") && a.GetNamespace() == metav1.NamespaceSystem {
				gets++
			}
		}
		return gets > 1
	})
	if got := ptr.Deref(leaseIn(t, client, "two").Spec.HolderIdentity, ""); got != "self" {
		t.Errorf("the second one's own Lease is held by %q", got)
	}
	if second.working.Load() {
		t.Error("both work at once")
	}
	if err := second.elections.check(); err != nil {
		t.Errorf("the one that waits is not healthy: %v", err)
	}
	third := install(t, client, "three", patiently)
	eventually(t, "the third to hold its own Lease", func() bool {
		_, err := client.Tracker().Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), "three", leaseName)
		return err == nil
	})
	third.stop()
	if err := <-third.result; err != nil {
		t.Errorf("the third ended with: %v", err)
	}
	for namespace, want := range map[string]string{"three": "", metav1.NamespaceSystem: "one/self"} {
		if got := ptr.Deref(leaseIn(t, client, namespace).Spec.HolderIdentity, ""); got != want {
			t.Errorf("when the third has stopped while it waited, the Lease in %s is held by %q", namespace, got)
		}
	}
	first.stop()
	if err := <-first.result; err != nil {
		t.Errorf("the first ended with: %v", err)
	}
	eventually(t, "the second to work", second.working.Load)
	second.stop()
	if err := <-second.result; err != nil {
		t.Errorf("the second ended with: %v", err)
	}
	for _, namespace := range []string{"one", "two", metav1.NamespaceSystem} {
		if got := ptr.Deref(leaseIn(t, client, namespace).Spec.HolderIdentity, ""); got != "" {
			t.Errorf("the Lease in %s was left to %q", namespace, got)
		}
	}
}

func TestLossOfEitherLeaseStopsProcess(t *testing.T) {
	for _, namespace := range []string{"one", metav1.NamespaceSystem} {
		t.Run("of the one in "+namespace, func(t *testing.T) {
			var reject atomic.Bool
			client := fake.NewClientset()
			client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
				renews := holderOf(action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)) != ""
				return reject.Load() && renews && action.GetNamespace() == namespace, nil, errors.New("no answer")
			})
			i := install(t, client, "one", func(e *election) {
				patiently(e)
				if e.Namespace == namespace {
					e.duration, e.deadline, e.period = 400*time.Millisecond, 200*time.Millisecond, 20*time.Millisecond
				}
			})
			eventually(t, "it to work", i.working.Load)
			reject.Store(true)
			if err := <-i.result; !errors.Is(err, errLeaseLost) {
				t.Errorf("it ended with: %v", err)
			}
			i.stop()
			for in, want := range map[string]string{"one": "self", metav1.NamespaceSystem: "one/self"} {
				if got := ptr.Deref(leaseIn(t, client, in).Spec.HolderIdentity, ""); got != want {
					t.Errorf("while work may still go on the Lease in %s was given to %q", in, got)
				}
			}
		})
	}
}
