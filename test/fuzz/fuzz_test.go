//go:build integration

package fuzz

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

var (
	objects = flag.Int("fuzz.objects", 50, "number of objects of each kind that the API server must accept")
	seed    = flag.Uint64("fuzz.seed", 1, "seed that selects the objects")
	only    = flag.String("fuzz.only", "", "create only the objects of a kind with these numbers, for example App/17 "+
		"or App/100-199")
)

// batch is the number of objects of a kind that the test creates before it checks the canaries.
const batch = 100

// TestOddObjectsDoNotAffectOtherTenants creates objects that the API server accepts and that no user would write.
// Tenants with the role edit create these objects, and an administrator creates the Platforms. After each batch, the
// test creates an ordinary object of every kind for another tenant, and each ordinary object must become Ready or Done.
// The operator must not panic, and every error in its log must name an object. Every odd object must get conditions
// unless it is paused or deleted, and it must be possible to delete every odd object.
func TestOddObjectsDoNotAffectOtherTenants(t *testing.T) {
	c := newCampaign(t)
	if *only != "" {
		kind, first, last := parseOnly(t, *only)
		c.verbose = true
		c.round(t, c.kind(t, kind), first, last)
		c.finish(t)
		return
	}
	c.canaries(t) // so that the heap is measured after some work
	c.measure(t)
	for accepted := 0; accepted < *objects; accepted += batch {
		if accepted > 0 && accepted%1000 == 0 {
			fmt.Printf("%d objects of each kind so far\n", accepted)
		}
		for _, kind := range c.kinds {
			c.next[kind.Name] = c.round(t, kind, c.next[kind.Name], -1)
			if t.Failed() {
				t.Fatalf("the numbers of the last objects are in the names of the subtests above; `-fuzz.seed %d "+
					"-fuzz.only %s/FIRST-LAST` creates some of them again", *seed, kind.Name)
			}
		}
	}
	c.finish(t)
}

// parseOnly parses the value of the flag -fuzz.only.
func parseOnly(t *testing.T, text string) (kind string, first, last int) {
	t.Helper()
	kind, numbers, ok := strings.Cut(text, "/")
	from, to, isRange := strings.Cut(numbers, "-")
	first, err := strconv.Atoi(from)
	if last = first; err == nil && isRange {
		last, err = strconv.Atoi(to)
	}
	if err != nil || !ok {
		t.Fatalf("flag -fuzz.only must be KIND/NUMBER or KIND/FIRST-LAST, got %q", text)
	}
	return kind, first, last
}

// round deletes the previous batch of a kind, creates a new batch that starts with number first, and changes some of
// its objects. It then checks the canaries, the objects and the log. The batch ends at number last, or has the usual
// size if last is negative. round returns the next number.
func (c *campaign) round(t *testing.T, kind Kind, first, last int) (next int) {
	t.Run(fmt.Sprintf("%s/%d", kind.Name, first), func(t *testing.T) {
		c.remove(t, kind)
		next = c.create(t, kind, first, last)
		c.update(t, kind)
		c.canaries(t)
		c.waitForConditions(t, kind)
		c.checkProcess(t)
		if t.Failed() {
			c.show(t, kind)
		}
	})
	return next
}
