//go:build integration

// Package sharding tests an operator with --shards on a real API server. The replicas of the operator share the
// namespaces, and take over the namespaces of replicas that end.
package sharding

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"windlass.dev/windlass/pkg/sharding/shards"
	"windlass.dev/windlass/test/framework"
)

const (
	namespace = "windlass-system" // the namespace of the operator
	// count is the number of shards. Up to four replicas can share them equally. population is the number of tenants. It
	// is larger, so that each shard has some tenants.
	count, population = 12, 24
)

// sharded is a cluster in which the replicas of an operator share the tenants. Each tenant has an App.
type sharded struct {
	*framework.Installation
	tenants  []string
	replicas []*framework.Process
}

// newSharded returns a cluster without replicas. served is whether the API server has the feature ShardedListAndWatch.
func newSharded(t *testing.T, served bool) *sharded {
	t.Helper()
	s := &sharded{Installation: framework.Own(t)}
	if served {
		if err := s.Stop("kube-apiserver"); err != nil {
			t.Fatal(err)
		}
		if err := s.StartComponent("kube-apiserver", "--feature-gates=ShardedListAndWatch=true"); err != nil {
			t.Fatal(err)
		}
	}
	for range population {
		tenant := s.NewNamespace(t)
		spec := framework.ProbedApp("nginx:1")
		spec.Replicas, spec.Config = ptr.To[int32](1), map[string]string{"key": "value"}
		s.CreateApp(t, tenant, "web", spec)
		s.tenants = append(s.tenants, tenant)
	}
	return s
}

// start starts a replica, and returns when it is ready.
func (s *sharded) start(t *testing.T, flags ...string) *framework.Process {
	t.Helper()
	p := framework.Launch(t, s.Cluster, append([]string{"--webhook-url=", fmt.Sprintf("--shards=%d", count)}, flags...)...)
	s.replicas = append(s.replicas, p)
	t.Cleanup(func() {
		_ = p.Thaw()
		p.Kill()
	})
	return p
}

// remove removes a replica that ends from the list of replicas.
func (s *sharded) remove(p *framework.Process) {
	s.replicas = slices.DeleteFunc(s.replicas, func(other *framework.Process) bool { return other == p })
}

// terminate stops a replica with SIGTERM, and fails the test unless its exit code is 0.
func (s *sharded) terminate(t *testing.T, p *framework.Process) {
	t.Helper()
	s.remove(p)
	if code := p.Terminate(); code != 0 {
		t.Errorf("a replica ended with exit code %d after SIGTERM", code)
	}
}

// settle waits until the given replicas own all shards, and each replica owns its share.
func (s *sharded) settle(t *testing.T, replicas ...*framework.Process) {
	t.Helper()
	framework.Eventually(t, "the replicas to share the shards", func(context.Context) (bool, error) {
		return s.isSettled(t, replicas...), nil
	})
}

// isSettled reports whether the given replicas own all shards, and each replica owns its share.
func (s *sharded) isSettled(t *testing.T, replicas ...*framework.Process) bool {
	t.Helper()
	held, err := s.held(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, p := range replicas {
		holds := held[p.Identity(t)]
		if holds > (count+len(replicas)-1)/len(replicas) {
			return false
		}
		total += holds
	}
	return total == count
}

// held returns the number of shards of each owner.
func (s *sharded) held(ctx context.Context) (map[string]int, error) {
	leases, err := s.Kube.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	held := map[string]int{}
	for _, lease := range leases.Items {
		if strings.HasPrefix(lease.Name, operator+"-shard-") {
			held[ptr.Deref(lease.Spec.HolderIdentity, "")]++
		}
	}
	return held, nil
}

// layout returns the stored layout.
func (s *sharded) layout(t *testing.T) shards.StoredLayout {
	t.Helper()
	layout, err := shards.Store{ConfigMaps: s.Kube.CoreV1().ConfigMaps(namespace), Operator: operator}.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return layout
}

// checkTerms fails the test if a replica has sent a write to a namespace whose shard the replica did not own.
func (s *sharded) checkTerms(t *testing.T) {
	t.Helper()
	sent, err := writes(s.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range outsideOfTerms(sent, s.layout(t).Layout, s.tenants) {
		t.Error(wrong)
	}
	t.Logf("%d writes, %d shards with terms", len(sent), len(terms(sent)))
}

// metric returns the sum of the values of a metric.
func metric(t *testing.T, p *framework.Process, name string) (sum int) {
	t.Helper()
	for line := range strings.Lines(p.Get(t, "/metrics")) {
		if !strings.HasPrefix(line, name) {
			continue
		}
		value := 0
		if _, err := fmt.Sscan(line[strings.LastIndex(line, " "):], &value); err != nil {
			t.Fatal(err)
		}
		sum += value
	}
	return sum
}

func TestReplicasShareObjects(t *testing.T) {
	for name, served := range map[string]bool{
		"the API server selects the objects of a shard": true, "the replicas exclude other namespaces": false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSharded(t, served)
			for range 3 {
				s.start(t)
			}
			s.settle(t, s.replicas...)
			users := s.beginToUse(t)
			users.catchUp(t)
			users.stop()
			framework.Eventually(t, "each replica to have its share of the Apps", func(context.Context) (bool, error) {
				total := 0
				for _, p := range s.replicas {
					apps := metric(t, p, `windlass_objects{controller="app"`)
					if apps < population/6 || apps > population/2 {
						return false, nil
					}
					total += apps
				}
				return total == population, nil
			})
			s.terminate(t, s.replicas[0])
			s.settle(t, s.replicas...)
			s.checkMetrics(t)
			s.checkTerms(t)
			s.checkSelectors(t, served)
			s.checkPermissions(t)
		})
	}
}
