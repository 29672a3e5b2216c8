package shards

import (
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

// viewOf returns a View of shards with weights. Each character of owners names the owner of a shard, and - stands for a
// free shard.
func viewOf(owners string, weights ...int) View {
	v := View{Layout: Layout{Version: 1, Cuts: make([]uint64, len(weights)-1), Weights: weights}}
	for _, owner := range owners {
		lease := Lease{}
		if owner != '-' {
			lease.Owner = string(owner)
		}
		v.Leases = append(v.Leases, lease)
	}
	return v
}

func TestReplicasThatStartTogetherTakeAboutAsManyObjects(t *testing.T) {
	weights := tenants(200, 20000)
	layout, _ := Layout{}.Next(weights, 12)
	taken, most := map[int]bool{}, 0
	for _, replica := range []string{"a", "b", "c", "d"} {
		v := View{Replicas: []string{"a", "b", "c", "d"}, Layout: layout}
		shards := v.Take(replica)
		if len(shards) != 3 {
			t.Fatalf("%s takes %v", replica, shards)
		}
		for _, shard := range shards {
			taken[shard] = true
		}
		most = max(most, v.weightOf(shards))
	}
	if len(taken) != 12 || most > 5500 {
		t.Errorf("the replicas take the shards %v, and one has %d of 20,000 objects", taken, most)
	}
}

func TestReplicaTakesWhatMakesReplicasEqual(t *testing.T) {
	for name, c := range map[string]struct {
		view View
		a, b []int
	}{
		"the heavy shard is for the replica with less": {viewOf("ab--", 10, 90, 80, 5), []int{2}, []int{3}},
		"without weights, replicas take turns": {
			viewOf("----", 0, 0, 0, 0), []int{0, 2}, []int{1, 3},
		},
		"a replica with its share takes nothing, although it is light": {viewOf("aab-", 1, 1, 90, 1), nil, []int{3}},
		"a replica takes what another would take, up to its share":     {viewOf("b---", 50, 7, 8, 9), []int{3, 2}, []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			c.view.Replicas = []string{"a", "b"}
			controllertest.Equal(t, "shards of a", c.a, c.view.Take("a"))
			controllertest.Equal(t, "shards of b", c.b, c.view.Take("b"))
		})
	}
}

func TestReplicaGivesWhatMakesReplicasEqual(t *testing.T) {
	for name, c := range map[string]struct {
		view View
		want int
	}{
		"for the lighter of two replicas":     {viewOf("aaacb", 10, 10, 10, 100, 1), 2},
		"half of the difference":              {viewOf("aaab", 60, 20, 50, 10), 0},
		"the lightest if the other has more":  {viewOf("aaab", 5, 1, 3, 100), 1},
		"the last if the weights are unknown": {viewOf("aaab", 0, 0, 0, 0), 2},
	} {
		t.Run(name, func(t *testing.T) {
			for _, lease := range c.view.Leases {
				if !slices.Contains(c.view.Renewed, lease.Owner) {
					c.view.Renewed = append(c.view.Renewed, lease.Owner)
				}
			}
			shard, to, ok := c.view.Surplus("a")
			if shard != c.want || to != "b" || !ok {
				t.Errorf("a releases shard %d for %q (%t), want %d", shard, to, ok, c.want)
			}
		})
	}
}

// TestReplicasReleaseInTurn adds a replica without shards to other replicas. All replicas have the same View.
func TestReplicasReleaseInTurn(t *testing.T) {
	for name, c := range map[string]struct {
		owners string
		want   string // the replicas that release a shard
	}{
		"one shard, although three replicas have two more": {"aabbcc", "a"},
		"a shard of each replica":                          {"aaaabbbbcccc", "abc"},
		"the replica with most shards first":               {"aaabbbbcc", "ab"},
		"nothing, because the others have one shard each":  {"abc", ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := viewOf(c.owners, make([]int, len(c.owners))...)
			v.Replicas = []string{"a", "b", "c", "new"}
			v.Renewed = v.Replicas
			got := ""
			for _, replica := range v.Replicas {
				if _, to, ok := v.Surplus(replica); ok && to == "new" {
					got += replica
				}
			}
			controllertest.Equal(t, "replicas that release a shard", c.want, got)
		})
	}
}

func TestStoreKeepsWeights(t *testing.T) {
	client := fake.NewClientset().CoreV1().ConfigMaps("windlass-system")
	store := Store{ConfigMaps: client, Operator: operator}
	layout, _ := Layout{}.Next(tenants(200, 20000), 12)
	layout.Version = 1
	if err := store.Replace(t.Context(), StoredLayout{}, layout); err != nil {
		t.Fatal(err)
	}
	stored, err := store.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "layout", layout, stored.Layout)
	for name, text := range map[string]string{
		"no weights": "", "a weight is missing": "1\n2", "no number": "1\nx", "a negative number": "-1",
		"a number that is too large": "99999999999",
	} {
		changed := stored.in.DeepCopy()
		changed.Data[weightsKey] = text
		l, err := layoutIn(changed)
		if err != nil || l.Weights != nil || l.ID() != layout.ID() {
			t.Errorf("%s: the layout is read as %v: %v", name, l, err)
		}
	}
}

// TestReplicasWithSameViewTakeDifferentShards uses numbers of shards that are multiples of the number of replicas. No
// two replicas must try to acquire the same shard.
func TestReplicasWithSameViewTakeDifferentShards(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		replicas := []string{"a", "b", "c", "d", "e"}[:1+random.IntN(5)]
		n := len(replicas) * (2 + random.IntN(3))
		weights := make([]int, n)
		for i := range weights {
			weights[i] = random.IntN(100)
		}
		v := viewOf("", weights...)
		v.Replicas = replicas
		var taken []int
		for _, replica := range replicas {
			taken = append(taken, v.Take(replica)...)
		}
		slices.Sort(taken)
		if len(taken) != n || len(slices.Compact(taken)) != n {
			t.Fatalf("with the weights %v, %d replicas take %v", weights, len(replicas), taken)
		}
	}
}
