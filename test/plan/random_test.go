//go:build integration

package plan

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

var (
	seed    = flag.Uint64("plan.seed", 1, "seed that selects the random changes")
	samples = flag.Int("plan.samples", 20, "number of random changes, of all kinds together")
)

// randomScenarios returns scenarios that change many fields at once, from random values to other random values.
func (k kindOf[S]) randomScenarios() (all []scenario) {
	for i := range *samples * k.share / 100 {
		// A scenario calls these functions several times, so each call makes its own source of random numbers.
		random := func(half uint64, mayRemove bool) func(*S) {
			return func(spec *S) { k.random(rand.New(rand.NewPCG(*seed, uint64(i)<<1|half)), spec, mayRemove) }
		}
		all = append(all, k.scenario(fmt.Sprintf("%s/random-%d", k.Kind, i), random(0, false), random(1, true)))
	}
	return all
}

// randomly returns a function that changes each field with a probability of one half.
func randomly[S any](changes map[string][]func(*S)) func(*rand.Rand, *S, bool) {
	return func(r *rand.Rand, spec *S, _ bool) {
		for _, field := range slices.Sorted(maps.Keys(changes)) {
			if n := r.IntN(2 * len(changes[field])); n < len(changes[field]) {
				changes[field][n](spec)
			}
		}
	}
}

// randomPlatform changes the fields, the state and the order of the components.
func randomPlatform(r *rand.Rand, spec *v1alpha1.PlatformSpec, mayRemove bool) {
	randomly(framework.ChangesOfApp)(r, spec.Components[framework.WebComponent].App, mayRemove)
	randomly(framework.ChangesOfDatabase)(r, spec.Components[framework.DatabaseComponent].Database, mayRemove)
	randomly(framework.ChangesOfExternalDatabase)(r, spec.Components[framework.OutsideComponent].ExternalDatabase,
		mayRemove)
	weighted := []v1alpha1.ManagementState{v1alpha1.Managed, v1alpha1.Managed, v1alpha1.Unmanaged, v1alpha1.Removed}
	for i := range spec.Components {
		if mayRemove {
			spec.Components[i].ManagementState = weighted[r.IntN(len(weighted))]
		}
	}
	r.Shuffle(len(spec.Components), func(i, j int) {
		spec.Components[i], spec.Components[j] = spec.Components[j], spec.Components[i]
	})
}
