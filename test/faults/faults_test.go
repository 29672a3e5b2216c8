//go:build integration

package faults

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	all      = flag.Bool("faults.all", false, "run all plans instead of a tenth")
	one      = flag.String("faults.plan", "", "run the plan of this name, or all whose names begin with it and a slash")
	seed     = flag.Uint64("faults.seed", 1, "which tenth")
	parallel = flag.Int("faults.parallel", 6, "how many plans run at once")
	some     = flag.String("faults.scenarios", "", "run these scenarios alone, or those of kinds, such as app-create,at")
	first    = flag.Bool("faults.first", false, "stop at the first failure")
	logs     = flag.String("faults.logs", "", "a directory for what failed")
)

// TestFaults runs plans, a tenth of them unless a flag says otherwise: of those with a
// PostgreSQL server, of which each takes seconds, less, and in half of their scenarios.
func TestFaults(t *testing.T) {
	c := newCampaign(starting(t), wantedScenarios(), *parallel)
	c.progress = func(text string) { fmt.Println(text) }
	c.failed = func(p plan, text string) {
		fmt.Printf("%s failed\n", p)
		if *logs == "" {
			return
		}
		file := filepath.Join(*logs, strings.ReplaceAll(p.String(), "/", "_")+".log")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	if *logs != "" {
		if err := os.MkdirAll(*logs, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case *one != "":
		c.chosen = isAskedFor
	case !*all:
		tenth, less := oneOf(10, *seed), oneOf(80, *seed)
		c.chosen = func(p plan) bool { return tenth(p) && (!c.scenarios[p.scenario].sql || less(p)) }
	}
	c.untilFailure = *first
	c.learn(t)
	if t.Failed() {
		return
	}
	c.run(t)
	fmt.Print(c.results)
	if plans, _ := c.results.totals(); plans == 0 {
		t.Error("no plan has run: is there one of that name?")
	}
}

// isAskedFor tells whether a plan is the one of the flag, or leads to it.
func isAskedFor(p plan) bool {
	name := p.String()
	return name == *one || strings.HasPrefix(name, *one+"/") || p.again == 0 && strings.HasPrefix(*one, name+"/")
}

// wantedScenarios are those of the plan that is asked for, or those that a flag names.
func wantedScenarios() []scenario {
	name, _, _ := strings.Cut(*one, "/")
	half := oneOf(2, *seed)
	return slices.DeleteFunc(allScenarios(), func(s scenario) bool {
		if name != "" || !*all && (s.calm || s.sql && !half(plan{scenario: s.name})) {
			return s.name != name
		}
		return *some != "" && !slices.ContainsFunc(strings.Split(*some, ","), func(k string) bool {
			return s.name == k || strings.HasPrefix(s.name, k+"-")
		})
	})
}
