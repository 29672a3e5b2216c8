//go:build integration

package sharding

import (
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cnatv1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// Flags of TestChaos. By default, each disturbance happens about once. `make chaos` disturbs the replicas for ten
// minutes.
var (
	duration = flag.Duration("sharding.duration", 20*time.Second, "how long replicas are disturbed, but at least "+
		"until each disturbance has happened once")
	drifts  = flag.Int("sharding.writes", 200, "writes to children of Apps")
	ats     = flag.Int("sharding.ats", 30, "Ats that become due")
	seed    = flag.Uint64("sharding.seed", 1, "seed of the disturbances")
	served  = flag.Bool("sharding.served", true, "whether the API server has the feature ShardedListAndWatch")
	limited = flag.Bool("sharding.limits", false, "fail if a shard had no owner, or a change of a user was not "+
		"carried out, for longer than docs/reliability.md says")
)

// disturbance is a failure of one replica or of all replicas, or a change of the number of replicas.
type disturbance struct {
	// happen disturbs the replica p, or does something that does not depend on p.
	happen func(t *testing.T, s *sharded, p *framework.Process)
	// after, if not nil, is called when the other replicas own the shards and have carried out the changes of the users.
	after func(t *testing.T, p *framework.Process)
	// limit is the longest time that the operator may take to carry out the change of a user.
	limit time.Duration
}

const added, rolledOut = "added", "rolled out"

var disturbances = map[string]disturbance{
	"killed": {limit: expiryLimit, happen: func(_ *testing.T, s *sharded, p *framework.Process) {
		s.remove(p)
		p.Kill()
	}},
	"stopped": {limit: releaseLimit, happen: func(t *testing.T, s *sharded, p *framework.Process) { s.terminate(t, p) }},
	"frozen": {limit: expiryLimit, happen: func(t *testing.T, s *sharded, p *framework.Process) {
		s.remove(p)
		if err := p.Freeze(); err != nil {
			t.Fatal(err)
		}
	}, after: func(t *testing.T, p *framework.Process) {
		if err := p.Thaw(); err != nil {
			t.Fatal(err)
		}
		if code := p.Wait(); code != 1 {
			t.Errorf("a replica that was frozen ended with exit code %d", code)
		}
	}},
	added: {limit: releaseLimit, happen: func(t *testing.T, s *sharded, _ *framework.Process) { s.start(t) }},
	rolledOut: {limit: releaseLimit, happen: func(t *testing.T, s *sharded, _ *framework.Process) {
		for _, p := range slices.Clone(s.replicas) {
			s.start(t)
			s.terminate(t, p)
		}
	}},
}

// choose chooses a disturbance at random. It keeps the number of replicas between one and four, plus one during a
// rollout. If choose does not add a replica, it chooses the disturbance that has happened least often.
func choose(random *rand.Rand, replicas int, happened map[string]int) string {
	if replicas == 1 || replicas < 4 && random.IntN(2) == 0 {
		return added
	}
	ends := []string{"frozen", "killed", "stopped", rolledOut}
	random.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
	return slices.MinFunc(ends, func(a, b string) int { return happened[a] - happened[b] })
}

// TestChaos disturbs the replicas while users change objects, children are changed, and Ats become due.
func TestChaos(t *testing.T) {
	t.Parallel()
	s := newSharded(t, *served)
	s.start(t)
	s.settle(t, s.replicas...)
	first := s.layout(t).ID()
	var drifting sync.WaitGroup
	drifting.Go(func() { s.drift(t) })
	t.Cleanup(drifting.Wait)
	s.createAts(t)
	users := s.beginToUse(t)
	windows := s.disturb(t, users)
	drifting.Wait()
	users.stop()
	if t.Failed() {
		return
	}
	if layout := s.layout(t).ID(); layout != first {
		t.Fatalf("the layout has changed from %s to %s, so that the terms cannot be checked", first, layout)
	}
	s.converge(t)
	s.checkTerms(t)
	s.checkPods(t)
	s.report(t, windows, users.carriedOut())
}

// window is the time of one disturbance. The window begins with the disturbance. After the replicas share the shards
// again, each user makes a change, and the window ends when the operator has carried out these changes. The disturbance
// may have delayed any change that was carried out in its window.
type window struct {
	name       string
	begin, end time.Time
	shared     time.Duration // from begin until each replica owns its share of the shards
}

// disturb disturbs the replicas repeatedly. Before each disturbance, it waits until the replicas share the shards.
func (s *sharded) disturb(t *testing.T, users *users) (windows []window) {
	t.Helper()
	random, happened := rand.New(rand.NewPCG(*seed, 0)), map[string]int{}
	most := 0
	users.catchUp(t)
	for end := time.Now().Add(*duration); time.Now().Before(end) || len(happened) < len(disturbances); {
		name, victim := choose(random, len(s.replicas), happened), s.replicas[random.IntN(len(s.replicas))]
		happened[name]++
		w := window{name: name, begin: time.Now()}
		disturbances[name].happen(t, s, victim)
		s.settle(t, s.replicas...)
		w.shared = time.Since(w.begin)
		users.catchUp(t)
		w.end = time.Now()
		windows, most = append(windows, w), max(most, len(s.replicas))
		if after := disturbances[name].after; after != nil {
			after(t, victim)
		}
	}
	t.Logf("seed %d, up to %d replicas, disturbances: %v", *seed, most, happened)
	return windows
}

// report logs the longest times. If a time exceeds its limit, report logs that too. With -sharding.limits, report then
// fails the test.
func (s *sharded) report(t *testing.T, windows []window, changes []change) {
	t.Helper()
	complain := t.Logf
	if *limited {
		complain = t.Errorf
	}
	sent, err := writes(s.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	for cause, times := range unowned(sent) {
		longest := slices.Max(times)
		t.Logf("time without an owner, %s: %d times, at most %v", cause, len(times), longest.Round(time.Millisecond))
		if limit := limits[cause]; longest > limit {
			complain("a shard had no owner for %v: %s; the limit is %v", longest, cause, limit)
		}
	}
	for name, of := range disturbances {
		n, shared := 0, time.Duration(0)
		for _, w := range windows {
			if w.name == name {
				n, shared = n+1, max(shared, w.shared)
			}
		}
		longest := longestIn(changes, windows, name)
		t.Logf("%s %d times: each change of a user was carried out after at most %v, the shards were shared "+
			"after at most %v", name, n, longest.Round(time.Millisecond), shared.Round(time.Millisecond))
		if longest > of.limit {
			complain("%s: a change of a user was carried out after %v; the limit is %v", name, longest, of.limit)
		}
	}
	t.Logf("%d changes of users; without a disturbance, each was carried out after at most %v", len(changes),
		longestIn(changes, windows, "").Round(time.Millisecond))
}

// longestIn returns the longest time of a change that was carried out in a window of a disturbance, or in no window if
// the disturbance is "".
func longestIn(changes []change, windows []window, disturbance string) (longest time.Duration) {
	for _, c := range changes {
		in := ""
		for _, w := range windows {
			if c.carriedOut.After(w.begin) && !c.carriedOut.After(w.end) {
				in = w.name
			}
		}
		if in == disturbance {
			longest = max(longest, c.carriedOut.Sub(c.made))
		}
	}
	return longest
}

// converge waits until every object has the state that its user wants.
func (s *sharded) converge(t *testing.T) {
	t.Helper()
	framework.Eventually(t, "all Ats to be done", func(ctx context.Context) (bool, error) {
		list, err := s.Windlass.CnatV1().Ats("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		open := slices.DeleteFunc(list.Items, func(at cnatv1.At) bool { return at.Status.Phase == cnatv1.AtDone })
		return len(open) == 0, nil
	})
	for _, tenant := range s.tenants {
		framework.Eventually(t, "the children of an App to be as its spec says",
			func(ctx context.Context) (bool, error) { return s.hasConverged(ctx, tenant) })
		s.AppIn(t, tenant, "web", v1alpha1.AppReady)
	}
}

// hasConverged reports whether the Deployment and the Service of an App match its spec, and have no drift.
func (s *sharded) hasConverged(ctx context.Context, tenant string) (bool, error) {
	app, err := s.Windlass.WindlassV1alpha1().Apps(tenant).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	deployment, err := s.Kube.AppsV1().Deployments(tenant).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return false, framework.IgnoreNotFound(err)
	}
	service, err := s.Kube.CoreV1().Services(tenant).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return false, framework.IgnoreNotFound(err)
	}
	return *deployment.Spec.Replicas == *app.Spec.Replicas && deployment.Labels[drifted] == "app" &&
		service.Labels[drifted] == "app", nil
}

// checkPods fails the test unless exactly one Pod was created for each At.
func (s *sharded) checkPods(t *testing.T) {
	t.Helper()
	created, err := s.Requests(func(r framework.Request) bool {
		return r.User.Username == framework.ControllerUser && r.Verb == "create" && r.ObjectRef.Resource == "pods" &&
			r.ResponseStatus.Code < 400
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
