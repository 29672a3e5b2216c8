package shards

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller/controllertest"
)

// tenants returns the number of objects in each of n namespaces, whose names are numbered. The first ten namespaces
// have half of all objects.
func tenants(n, objects int) map[string]int {
	weights := map[string]int{}
	for i := range n {
		weight := objects / 2 / (n - 10)
		if i < 10 {
			weight = objects / 2 / 10
		}
		weights[fmt.Sprintf("tenant-%03d", i)] = weight
	}
	return weights
}

func TestEveryNamespaceIsInExactlyOneShard(t *testing.T) {
	for _, n := range []int{1, 2, 3, 12, 100} {
		for name, weights := range map[string]map[string]int{
			"no namespaces": nil, "one namespace": {"default": 7}, "tenants": tenants(200, 20000),
		} {
			l := Layout{Version: 1, Cuts: Balance(weights, n)}
			if len(l.Cuts) != n-1 || !slices.IsSorted(l.Cuts) {
				t.Fatalf("%s: %d shards have the cuts %v", name, n, l.Cuts)
			}
			if _, err := Parse(1, l.Text()); err != nil {
				t.Fatalf("%s: %d shards have a layout that no replica can read: %v", name, n, err)
			}
			for namespace := range tenants(300, 1000) {
				for shard := range n {
					object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
					matches, err := l.Selector(shard).Matches(object)
					if err != nil || matches != (shard == l.ShardOf(namespace)) {
						t.Fatalf("%s: namespace %s is in shard %d, but the selector of shard %d says %t (%v)", name,
							namespace, l.ShardOf(namespace), shard, matches, err)
					}
				}
			}
		}
	}
}

func TestBalanceFollowsNamespacesThatExist(t *testing.T) {
	for name, c := range map[string]struct {
		weights  map[string]int
		shards   int
		heaviest int
	}{
		"no namespaces":                  {nil, 4, 0},
		"fewer namespaces than shards":   {map[string]int{"a": 1, "b": 1}, 4, 1},
		"numbered namespaces":            {tenants(200, 20000), 4, 5200},
		"one namespace with all objects": {map[string]int{"a": 1000, "b": 1, "c": 1}, 3, 1000},
		"more shards than are useful":    {tenants(200, 20000), 50, 1400},
		"empty namespaces count as one":  {map[string]int{"a": 0, "b": 0, "c": 0, "d": 0}, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			l := Layout{Cuts: Balance(c.weights, c.shards)}
			if got := l.Heaviest(c.weights); got > c.heaviest {
				t.Errorf("the heaviest shard has weight %d, want at most %d", got, c.heaviest)
			}
		})
	}
}

func TestBalanceLeavesNoShardAlmostEmpty(t *testing.T) {
	const objects, shards = 20000, 12
	weights := tenants(200, objects)
	held := Layout{Cuts: Balance(weights, shards)}.weigh(weights)
	if lightest := slices.Min(held); lightest < objects/shards/2 {
		t.Errorf("shards of %d objects have %v", objects, held)
	}
}

func TestParseReadsWhatTextWrites(t *testing.T) {
	want := Layout{Version: 7, Cuts: Balance(tenants(200, 20000), 12)}
	got, err := Parse(7, want.Text())
	if err != nil || !slices.Equal(got.Cuts, want.Cuts) || got.Version != want.Version {
		t.Errorf("the layout %v is read as %v: %v", want, got, err)
	}
	for name, text := range map[string][]string{
		"no number": {"x"}, "an empty cut": {""}, "the beginning": {"0x0"}, "a cut twice": {
			"0x5", "0x5",
		}, "cuts that descend": {"0x6", "0x5"}, "a number that is too large": {"0x10000000000000000"},
	} {
		if l, err := Parse(1, text); err == nil {
			t.Errorf("%s: %q is read as %v", name, text, l)
		}
	}
}

func TestLayoutIsReplacedOnlyIfItDoesNotFit(t *testing.T) {
	weights := tenants(40, 4000)
	good := Layout{Version: 3, Cuts: Balance(weights, 4)}
	for name, c := range map[string]struct {
		layout  Layout
		weights map[string]int
		n       int
		changed bool
	}{
		"no layout":                            {Layout{}, weights, 4, true},
		"the best layout":                      {good, weights, 4, false},
		"another number of shards":             {good, weights, 5, true},
		"no shards":                            {good, weights, 1, true},
		"equal ranges for numbered namespaces": {Layout{Version: 1, Cuts: Balance(nil, 4)}, weights, 4, true},
		"a few objects, however they are spread": {
			Layout{Version: 1, Cuts: Balance(nil, 4)}, map[string]int{"tenant-000": 40, "tenant-001": 40}, 4, false,
		},
		"without objects": {good, nil, 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			next, changed := c.layout.Next(c.weights, c.n)
			controllertest.Equal(t, "changed", c.changed, changed)
			if changed {
				controllertest.Equal(t, "cuts", c.n-1, len(next.Cuts))
			}
		})
	}
}

func TestIDsOfDifferentLayoutsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range []Layout{
		{}, {Version: 1}, {Version: 2}, {Version: 2, Cuts: []uint64{1}}, {
			Version: 2, Cuts: []uint64{1, 2},
		}, {Version: 2, Cuts: []uint64{1 << 40}}, {Version: 12, Cuts: []uint64{1}},
	} {
		if seen[l.ID()] {
			t.Errorf("another layout has the ID %s too", l.ID())
		}
		seen[l.ID()] = true
		controllertest.Equal(t, "version in the ID", l.Version, versionIn(l.ID()))
	}
	for _, id := range []string{"", "x", "-1-x", "99999999999999999999-x", "9007199254740993-x"} {
		controllertest.Equal(t, "version in "+id, 0, versionIn(id))
	}
}
