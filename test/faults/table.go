package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// table counts plans and failures, by fault and by kind.
type table map[cell]*count

type cell struct{ fault, kind string }

type count struct{ plans, failures int }

func (t table) add(p plan, ok bool) {
	kind, _, _ := strings.Cut(p.scenario, "-")
	key := cell{p.tableRow(), kind}
	if t[key] == nil {
		t[key] = &count{}
	}
	t[key].plans++
	if !ok {
		t[key].failures++
	}
}

func (t table) totals() (plans, failures int) {
	for _, c := range t {
		plans += c.plans
		failures += c.failures
	}
	return plans, failures
}

// String returns the table as text: a row for each fault, a column for each kind, and the sums.
func (t table) String() string {
	faults, kinds := map[string]bool{}, map[string]bool{}
	for key := range t {
		faults[key.fault], kinds[key.kind] = true, true
	}
	columns := slices.Sorted(maps.Keys(kinds))
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "fault\t%s\tplans\tfailures\t\n", strings.Join(columns, "\t"))
	for _, fault := range slices.Sorted(maps.Keys(faults)) {
		fmt.Fprint(w, fault)
		sum := count{}
		for _, kind := range columns {
			c := count{}
			if known := t[cell{fault, kind}]; known != nil {
				c = *known
			}
			fmt.Fprintf(w, "\t%d", c.plans)
			sum.plans += c.plans
			sum.failures += c.failures
		}
		fmt.Fprintf(w, "\t%d\t%d\t\n", sum.plans, sum.failures)
	}
	plans, failures := t.totals()
	fmt.Fprintf(w, "all%s\t%d\t%d\t\n", strings.Repeat("\t", len(columns)), plans, failures)
	_ = w.Flush() // a strings.Builder returns no error
	return text.String()
}
