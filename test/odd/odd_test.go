//go:build integration

package odd

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

var (
	objects = flag.Int("odd.objects", 200, "how many objects of each kind the API server has to accept")
	seed    = flag.Uint64("odd.seed", 1, "which objects")
	only    = flag.String("odd.only", "", "the objects of a kind and number, or of a range of numbers, such as App/17 or App/100-199")
)

// batch is how many objects of a kind are created before all others are looked after.
const batch = 100

// TestOddObjectsHarmNobody creates objects that the API server accepts and that no user would
// write, as tenants with the role edit, and Platforms as an administrator. After each hundred it
// creates an object of every kind for another tenant, which must become what it should. The
// operator may not panic, nor log an error without the object that it is about; every object
// gets its conditions, can be changed, and is gone after it was deleted.
func TestOddObjectsHarmNobody(t *testing.T) {
	c := newCampaign(t)
	if *only != "" {
		kind, first, last := parseOnly(t, *only)
		c.verbose = true
		c.round(t, c.kind(t, kind), first, last)
		c.finish(t)
		return
	}
	c.canaries(t) // what an operator needs that has worked, before its heap is measured
	c.measure(t)
	for accepted := 0; accepted < *objects; accepted += batch {
		if accepted > 0 && accepted%1000 == 0 {
			fmt.Printf("%d objects of each kind so far\n", accepted)
		}
		for _, kind := range c.kinds {
			c.next[kind.Name] = c.round(t, kind, c.next[kind.Name], -1)
			if t.Failed() {
				t.Fatalf("the objects of this seed that came last are above; `-odd.seed %d -odd.only %s/FIRST-LAST` creates some of them again", *seed, kind.Name)
			}
		}
	}
	c.finish(t)
}

// parseOnly reads the flag -odd.only.
func parseOnly(t *testing.T, text string) (kind string, first, last int) {
	t.Helper()
	kind, numbers, ok := strings.Cut(text, "/")
	from, to, isRange := strings.Cut(numbers, "-")
	first, err := strconv.Atoi(from)
	if last = first; err == nil && isRange {
		last, err = strconv.Atoi(to)
	}
	if err != nil || !ok {
		t.Fatalf("-odd.only must be KIND/NUMBER or KIND/FIRST-LAST, not %q", text)
	}
	return kind, first, last
}

// round creates a batch of objects of a kind, beginning with a number, changes some of them, and
// looks after the canaries, the log and the objects themselves. The batch of the round before
// is deleted. A last number that is not negative ends the batch instead of their count. It
// returns the number after the last.
func (c *campaign) round(t *testing.T, kind Kind, first, last int) (next int) {
	t.Run(fmt.Sprintf("%s/%d", kind.Name, first), func(t *testing.T) {
		c.remove(t, kind)
		next = c.create(t, kind, first, last)
		c.update(t, kind)
		c.canaries(t)
		c.rest(t, kind)
		c.look(t)
		if t.Failed() {
			c.show(t, kind)
		}
	})
	return next
}
