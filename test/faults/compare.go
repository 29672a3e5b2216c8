package faults

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// reference is the outcome of the reference run, which has no fault.
type reference struct {
	outcome
	// masked holds the paths of the fields that differ between two runs without a fault, such as passwords and
	// addresses. It may also hold the names of whole objects.
	masked map[string]bool
}

// newReference returns the reference from the outcomes of two runs without a fault. The problems are the violations
// in both runs, and unexpected differences between the runs.
func newReference(a, b outcome) (reference, []string) {
	ref := reference{a, map[string]bool{}}
	var problems []string
	problems = append(problems, a.violations...)
	problems = append(problems, b.violations...)
	ref.points.requests, a.points.requests, b.points.requests = withoutChecks(a.points.requests, b.points.requests)
	ref.points.beforeLastStep = min(ref.points.beforeLastStep, len(ref.points.requests))
	if diff := a.points.diff(b.points); diff != "" {
		problems = append(problems, "two runs without a fault differ in "+diff)
	}
	for name := range union(a.final, b.final) {
		maskDifferences(ref.masked, name, a.final[name], b.final[name])
	}
	for path := range ref.masked {
		if !nondeterministicFields.MatchString(path) {
			problems = append(problems, "two runs without a fault differ in "+path)
		}
	}
	for name, value := range a.final {
		if strings.HasPrefix(name, "server/certificate/") && value == "is rejected" {
			problems = append(problems, "clients reject the certificate of the server in a run without a fault")
		}
	}
	ref.final = ref.applyMask(a.final)
	return ref, append(problems, ref.compare(b, plan{})...)
}

// withoutChecks returns the requests that both runs sent, and the requests of each run without GETs and SQL
// statements. Periodic checks send GETs and SQL statements at random times.
func withoutChecks(a, b []string) (both, withoutA, withoutB []string) {
	isRead := func(id string) bool { return strings.HasPrefix(id, "sql-") || strings.HasPrefix(id, "get-") }
	both = slices.DeleteFunc(slices.Clone(a), func(id string) bool { return !slices.Contains(b, id) })
	return both, slices.DeleteFunc(slices.Clone(a), isRead), slices.DeleteFunc(slices.Clone(b), isRead)
}

// maskDifferences adds to masked the paths at which a has a scalar and b has another value. It skips fields that only
// one of a and b has, and lists of different lengths. path is the path of a and b.
func maskDifferences(masked map[string]bool, path string, a, b any) {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			for key := range union(a, b) {
				maskDifferences(masked, path+"."+key, a[key], b[key])
			}
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			for i := range a {
				maskDifferences(masked, fmt.Sprintf("%s[%d]", path, i), a[i], b[i])
			}
		}
	default:
		if a != nil && b != nil && !reflect.DeepEqual(a, b) {
			masked[path] = true
		}
	}
}

func (ref reference) applyMask(final map[string]any) map[string]any {
	result := map[string]any{}
	for name, object := range final {
		if !ref.masked[name] {
			result[name] = ref.maskValue(name, object)
		}
	}
	return result
}

func (ref reference) maskValue(path string, value any) any {
	if ref.masked[path] {
		return "masked"
	}
	switch value := value.(type) {
	case map[string]any:
		result := map[string]any{}
		for key, field := range value {
			result[key] = ref.maskValue(path+"."+key, field)
		}
		return result
	case []any:
		result := make([]any, len(value))
		for i, item := range value {
			result[i] = ref.maskValue(fmt.Sprintf("%s[%d]", path, i), item)
		}
		return result
	}
	return value
}

// maxReconciles is how many reconciles of an object may write or fail in one interval after a fault. The limit is
// higher for an object with more such reconciles in the reference run: the maximum of all intervals plus one, or the
// sum of this interval and the previous interval plus one, because a fault can delay reconciles until the next
// interval. After a permanent fault, one more reconcile may fail: a periodic check.
const maxReconciles = 3

// compare returns how the outcome of a plan differs from the reference, and the violations in the run of the plan.
func (ref reference) compare(o outcome, p plan) []string {
	problems := slices.Clone(o.violations)
	ref.masked = maps.Clone(ref.masked)
	previous := ref.previousConfigMaps(o, p)
	maps.Copy(ref.masked, ref.exemptObjects(p))
	maps.Copy(ref.masked, previous)
	want, got := ref.applyMask(ref.final), ref.applyMask(o.final)
	if diff := cmp.Diff(want, got); diff != "" {
		problems = append(problems, "the final state differs (-reference +plan):\n"+diff)
	}
	allowance := ref.allowance(p, previous)
	problems = append(problems, compareCounts("created", ref.created, o.created, allowance)...)
	problems = append(problems, compareCounts("deleted", ref.deleted, o.deleted, allowance)...)
	problems = append(problems, compareCounts("given a password", ref.passwords, o.passwords, allowance)...)
	if o.requestsPerHour > ref.requestsPerHour*restSlack+restAllowance {
		problems = append(problems,
			fmt.Sprintf("at rest the operator sends %.0f requests an hour, in the reference run %.0f",
				o.requestsPerHour, ref.requestsPerHour))
	}
	return append(problems, ref.excessReconciles(o, p)...)
}

// restSlack and restAllowance limit the requests per hour at rest to restSlack times the rate of the reference run,
// plus restAllowance. Rates differ because some periods of rest are short, and because a period can begin at any time
// between two periodic checks.
const restSlack, restAllowance = 1.5, 6

// compareCounts returns the objects whose counts differ from the reference by more than the allowance. verb says what
// is counted.
func compareCounts(
	verb string, want, got map[string]int, allowance func(name string) (fewer, more int),
) (problems []string) {
	for name := range union(want, got) {
		fewer, more := allowance(name)
		if got[name] < want[name]-fewer || got[name] > want[name]+more {
			problems = append(problems, fmt.Sprintf("%s was %s %d times, in the reference run %d", name, verb,
				got[name], want[name]))
		}
	}
	slices.Sort(problems)
	return problems
}

// excessReconciles returns the objects that were reconciled too often.
func (ref reference) excessReconciles(o outcome, p plan) (problems []string) {
	usual, most, more := ref.countReconciles(false), map[string]int{}, 1
	if isPermanent(p.fault) {
		more = 2
	}
	limit := maxReconciles
	if slices.Contains(podLosses, p.fault) {
		limit++ // of the four, one adds the Pod to the status, and one follows the removal of its finalizer
	}
	for key, n := range usual {
		most[key.object] = max(most[key.object], n)
	}
	for key, n := range o.countReconciles(true) {
		delayed := usual[objectInterval{key.object, key.interval - 1}]
		if n > max(limit, most[key.object]+more, delayed+usual[key]+more) {
			problems = append(problems, fmt.Sprintf("%s took %d reconciles in interval %d", key.object, n, key.interval))
		}
	}
	slices.Sort(problems)
	return problems
}

// objectInterval is the key of a count of reconciles. An interval begins with an external write or the end of a fault.
type objectInterval struct {
	object   string
	interval int
}

// countReconciles counts the reconciles that wrote or failed. With afterFault, it counts only reconciles that ended
// after the fault was over.
func (o outcome) countReconciles(afterFault bool) map[objectInterval]int {
	counts := map[objectInterval]int{}
	for _, rc := range o.reconciles {
		if (rc.afterFault || !afterFault) && (o.writes[rc.id] > 0 || rc.failed()) {
			counts[objectInterval{rc.object, rc.interval}]++
		}
	}
	return counts
}

func union[V any](a, b map[string]V) map[string]bool {
	all := map[string]bool{}
	for key := range a {
		all[key] = true
	}
	for key := range b {
		all[key] = true
	}
	return all
}
