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

	"windlass.dev/windlass/test/framework"
)

var (
	all      = flag.Bool("faults.all", false, "run all plans, not only an eightieth of the plans of some scenarios")
	planName = flag.String("faults.plan", "", "run only the plan with this `name`, or the plans whose names "+
		"begin with it and a slash")
	seed          = flag.Uint64("faults.seed", 1, "the seed that selects the eightieth of the plans")
	parallel      = flag.Int("faults.parallel", 6, "the number of plans that run at the same time")
	scenarioNames = flag.String("faults.scenarios", "", "run only the scenarios and kinds in this list, for example "+
		"app-create,at")
	stopAtFirst = flag.Bool("faults.first", false, "stop at the first failure")
	logs        = flag.String("faults.logs", "", "the directory for the logs of plans that fail")
)

// TestFaults runs the plans that the flags select. By default, it runs one of 80 plans in a quarter of the scenarios
// (see framework.Quarter).
func TestFaults(t *testing.T) {
	scenarios, err := selectedScenarios()
	if err != nil {
		t.Fatal(err)
	}
	runner := newPlanRunner(harnessStarter(t), scenarios, *parallel)
	runner.reportProgress = func(text string) { fmt.Println(text) }
	runner.reportFailure = func(p plan, text string) {
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
	case *planName != "":
		runner.selects = isSelected
	case !*all:
		runner.selects = sample(80, *seed)
	}
	runner.stopAtFailure = *stopAtFirst
	runner.runReferences(t)
	if t.Failed() {
		return
	}
	runner.run(t)
	fmt.Print(runner.results)
	if plans, _ := runner.results.totals(); plans == 0 {
		t.Error("no plan ran: check the names in the flags")
	}
}

// isSelected reports whether the flag -faults.plan selects p, or a plan with a second death that follows from p.
func isSelected(p plan) bool {
	name := p.String()
	return name == *planName || strings.HasPrefix(name, *planName+"/") || p.secondDeath == 0 &&
		strings.HasPrefix(*planName, name+"/")
}

// selectedScenarios returns the scenarios that the flags select.
func selectedScenarios() ([]scenario, error) {
	name, _, _ := strings.Cut(*planName, "/")
	selected := slices.DeleteFunc(allScenarios(), func(s scenario) bool {
		if name != "" || !*all && s.noFaults {
			return s.name != name
		}
		return *scenarioNames != "" && !slices.ContainsFunc(strings.Split(*scenarioNames, ","), func(k string) bool {
			return s.name == k || strings.HasPrefix(s.name, k+"-")
		})
	})
	if *all || name != "" || *scenarioNames != "" {
		return selected, nil
	}
	return framework.Quarter(selected)
}
