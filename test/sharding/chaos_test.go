//go:build integration

package sharding

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/test/cluster"
	"windlass.dev/windlass/test/place"
	"windlass.dev/windlass/test/world"
)

// The defaults take some minutes. `make chaos` disturbs the replicas for ten minutes.
var (
	rounds = flag.Int("sharding.rounds", 1, "how often each disturbance happens")
	drifts = flag.Int("sharding.writes", 500, "writes to children of Apps")
	ats    = flag.Int("sharding.ats", 60, "Ats that become due")
	served = flag.Bool("sharding.served", true, "whether the API server has the feature ShardedListAndWatch")
)

// disturbances happen to one of two to four replicas. Each returns what to do when other replicas hold the shards of a replica that has ended.
var disturbances = map[string]func(t *testing.T, s *sharded, p *place.Process) (after func()){
	"killed": func(_ *testing.T, s *sharded, p *place.Process) func() {
		s.remove(p)
		p.Kill()
		return func() {}
	},
	"stopped": func(t *testing.T, s *sharded, p *place.Process) func() {
		s.remove(p)
		if code := p.Terminate(); code != 0 {
			t.Errorf("a replica ended with exit code %d after SIGTERM", code)
		}
		return func() {}
	},
	"frozen": func(t *testing.T, s *sharded, p *place.Process) func() {
		s.remove(p)
		if err := p.Freeze(); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := p.Thaw(); err != nil {
				t.Fatal(err)
			}
			if code := p.Wait(); code != 1 {
				t.Errorf("a replica that was frozen ended with exit code %d", code)
			}
		}
	},
	"added": func(t *testing.T, s *sharded, _ *place.Process) func() {
		s.start(t)
		return func() {}
	},
}

// TestChaos disturbs the replicas while users change objects, children are changed, and Ats become due.
func TestChaos(t *testing.T) {
	s := newSharded(t, *served)
	random := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		s.start(t)
	}
	s.settle(t, s.replicas...)
	first := s.layout(t).ID()
	var drifting sync.WaitGroup
	drifting.Go(func() { s.drift(t) })
	t.Cleanup(drifting.Wait)
	s.createAts(t)
	longest := map[string]time.Duration{}
	for range *rounds {
		for _, name := range []string{"killed", "added", "frozen", "stopped", "added", "added"} {
			began := time.Now()
			after := disturbances[name](t, s, s.replicas[random.IntN(len(s.replicas))])
			var carriedOut time.Duration
			for settled := false; !settled && time.Since(began) < world.Patience; settled = s.isSettled(t, s.replicas...) {
				carriedOut = max(carriedOut, s.change(t, s.tenants...)) // in all namespaces, while some are handed over
			}
			s.settle(t, s.replicas...)
			longest[name] = max(longest[name], carriedOut)
			t.Logf("a replica was %s: each change was carried out after at most %v, the shards were held after at most %v", name, carriedOut, time.Since(began))
			after()
		}
	}
	drifting.Wait()
	if t.Failed() {
		return
	}
	t.Logf("the longest time until the change of a user was carried out, by disturbance: %v", longest)
	if layout := s.layout(t).ID(); layout != first {
		t.Fatalf("the layout has changed from %s to %s, so that the terms cannot be checked", first, layout)
	}
	s.converge(t)
	s.checkTerms(t)
	s.checkPods(t)
	for _, cause := range []string{"released", "expired"} {
		t.Logf("the longest time without an owner that the remaining replicas measured, %s: up to %v s", cause, s.unowned(t, cause))
	}
}

// round is about how long the disturbances of one round take.
const round = 45 * time.Second

// drifters write at the same time, because the API server and the replicas are busy.
const drifters = 4

// drift changes and deletes children of Apps. That takes about as long as the rounds, and ends with the test.
func (s *sharded) drift(t *testing.T) {
	next := time.NewTicker(time.Duration(*rounds) * round / time.Duration(*drifts))
	defer next.Stop()
	var begun, made atomic.Int64
	var writers sync.WaitGroup
	for range drifters {
		writers.Go(func() {
			for i := begun.Add(1); i <= int64(*drifts); i = begun.Add(1) {
				select {
				case <-t.Context().Done():
					return
				case <-next.C:
				}
				if err := s.spoil(context.Background(), i); world.IgnoreNotFound(err) != nil {
					t.Errorf("changing a child: %v", err)
					return
				}
				made.Add(1)
			}
		})
	}
	writers.Wait()
	t.Logf("%d of %d writes to children were made", made.Load(), *drifts)
}

// spoil changes or deletes a child of an App.
func (s *sharded) spoil(ctx context.Context, number int64) (err error) {
	tenant := s.tenants[rand.New(rand.NewPCG(3, uint64(number))).IntN(len(s.tenants))]
	switch number % 3 {
	case 0:
		_, err = s.Kube.AppsV1().Deployments(tenant).Patch(ctx, "web", types.MergePatchType, []byte(`{"spec":{"replicas":9}}`), metav1.PatchOptions{})
	case 1:
		err = s.Kube.CoreV1().Services(tenant).Delete(ctx, "web", metav1.DeleteOptions{})
	default:
		err = s.Kube.AppsV1().Deployments(tenant).Delete(ctx, "web", metav1.DeleteOptions{})
	}
	return err
}

// createAts creates Ats that become due one after another during all rounds.
func (s *sharded) createAts(t *testing.T) {
	t.Helper()
	start := time.Now()
	for i := range *ats {
		due := start.Add(time.Duration(*rounds) * round * time.Duration(i) / time.Duration(*ats))
		_, err := s.Windlass.CnatV1().Ats(s.tenants[i%len(s.tenants)]).Create(t.Context(), &cnatv1.At{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("at-%d", i)},
			Spec:       cnatv1.AtSpec{Schedule: due.UTC().Format(time.RFC3339), Command: []string{"echo", "Hello"}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("creating an At: %v", err)
		}
	}
}

// converge waits until every object has the state that its user wants.
func (s *sharded) converge(t *testing.T) {
	t.Helper()
	world.Eventually(t, "all Ats to be done", func(ctx context.Context) (bool, error) {
		list, err := s.Windlass.CnatV1().Ats("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		open := slices.DeleteFunc(list.Items, func(at cnatv1.At) bool { return at.Status.Phase == cnatv1.AtDone })
		return len(open) == 0, nil
	})
	for _, tenant := range s.tenants {
		world.Eventually(t, "the children of an App to be as its spec says", func(ctx context.Context) (bool, error) {
			app, err := s.Windlass.WindlassV1alpha1().Apps(tenant).Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			deployment, err := s.Kube.AppsV1().Deployments(tenant).Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				return false, world.IgnoreNotFound(err)
			}
			_, err = s.Kube.CoreV1().Services(tenant).Get(ctx, "web", metav1.GetOptions{})
			return err == nil && *deployment.Spec.Replicas == *app.Spec.Replicas, world.IgnoreNotFound(err)
		})
	}
}

// checkPods fails the test if an At has two Pods.
func (s *sharded) checkPods(t *testing.T) {
	t.Helper()
	created, err := s.Requests(func(r cluster.Request) bool {
		return r.User.Username == place.ControllerUser && r.Verb == "create" && r.ObjectRef.Resource == "pods" && r.ResponseStatus.Code < 400
	})
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]int{}
	for _, r := range created {
		pods[r.ObjectRef.Namespace+"/"+r.ObjectRef.Name]++
	}
	for name, times := range pods {
		if times > 1 {
			t.Errorf("Pod %s was created %d times", name, times)
		}
	}
	if len(pods) != *ats {
		t.Errorf("%d Pods were created for %d Ats", len(pods), *ats)
	}
}

// unowned returns the upper bound of the longest time without an owner in the histogram of a cause.
func (s *sharded) unowned(t *testing.T, cause string) (bound float64) {
	t.Helper()
	for _, p := range s.replicas {
		before := 0
		for line := range strings.Lines(p.Get(t, "/metrics")) {
			text, ok := strings.CutPrefix(line, fmt.Sprintf(`windlass_shard_unowned_seconds_bucket{cause=%q,le="`, cause))
			if !ok {
				continue
			}
			var le float64
			var n int
			if _, err := fmt.Sscanf(text, "%g\"} %d", &le, &n); err == nil && n > before {
				before, bound = n, max(bound, le)
			}
		}
	}
	return bound
}
