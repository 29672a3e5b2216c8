package conditions_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller/conditions"
)

var (
	early = metav1.Date(2026, 2, 10, 20, 30, 0, 0, time.UTC)
	late  = metav1.Date(2026, 2, 10, 21, 30, 0, 0, time.UTC)
)

// condition returns a condition without a message.
func condition(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason}
}

// stamped returns c with this generation and last transition time.
func stamped(c metav1.Condition, generation int64, since metav1.Time) metav1.Condition {
	c.ObservedGeneration, c.LastTransitionTime = generation, since
	return c
}

func TestSettingConditions(t *testing.T) {
	ready := condition("Ready", "True", "Painted")
	dry := condition("Dry", "Unknown", "Dark")
	for name, test := range map[string]struct {
		before []metav1.Condition
		change func(list *[]metav1.Condition)
		want   []metav1.Condition
	}{
		"a new condition comes last": {
			[]metav1.Condition{ready},
			func(list *[]metav1.Condition) { conditions.Set(list, "Dry", metav1.ConditionUnknown, "Dark", "") },
			[]metav1.Condition{ready, dry},
		},
		"an existing condition keeps its place": {
			[]metav1.Condition{stamped(ready, 3, early), dry},
			func(list *[]metav1.Condition) { conditions.False(list, "Ready", "Peeling", "It peels.") },
			[]metav1.Condition{{Type: "Ready", Status: "False", Reason: "Peeling", Message: "It peels."}, dry},
		},
		"a reconcile begins neither Degraded nor Stalled, and keeps other conditions": {
			[]metav1.Condition{
				condition("Degraded", "True", "Stuck"), condition("Stalled", "True", "Stuck"), stamped(ready, 3, early),
			},
			conditions.Begin,
			[]metav1.Condition{condition("Degraded", "False", "AsExpected"), stamped(ready, 3, early)},
		},
		"the first reconcile begins with Degraded alone": {
			nil, conditions.Begin, []metav1.Condition{condition("Degraded", "False", "AsExpected")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			list := append([]metav1.Condition(nil), test.before...)
			test.change(&list)
			if diff := cmp.Diff(test.want, list); diff != "" {
				t.Errorf("wanted (-), got (+):\n%s", diff)
			}
		})
	}
}

func TestSetFitsMessagesToLimitOfAPIServer(t *testing.T) {
	const limit = 32768
	for name, test := range map[string]struct{ message, want string }{
		"a message that fits stays":            {strings.Repeat("m", limit), strings.Repeat("m", limit)},
		"a longer message ends in an ellipsis": {strings.Repeat("m", limit+1), strings.Repeat("m", limit-3) + "..."},
		"a letter is not cut in two": {
			strings.Repeat("ä", limit), strings.Repeat("ä", (limit-3)/2) + "...",
		},
		"a message that is not UTF-8 is replaced as JSON replaces it": {"Fehler \xfcber Fehler", "Fehler \ufffdber Fehler"},
	} {
		t.Run(name, func(t *testing.T) {
			var list []metav1.Condition
			conditions.Set(&list, "Ready", metav1.ConditionFalse, "Broken", test.message)
			if got := list[0].Message; got != test.want || !utf8.ValidString(got) || len(got) > limit {
				t.Errorf("got %d bytes, valid UTF-8: %v, end: %q", len(got), utf8.ValidString(got), got[max(0, len(got)-20):])
			}
		})
	}
}

func TestStamp(t *testing.T) {
	ready := condition("Ready", "True", "Painted")
	for name, test := range map[string]struct {
		old, list, want []metav1.Condition
	}{
		"a new condition gets the time now": {
			nil, []metav1.Condition{ready}, []metav1.Condition{stamped(ready, 7, late)},
		},
		"a condition with the same status keeps its time and gets the generation": {
			[]metav1.Condition{stamped(ready, 6, early)},
			[]metav1.Condition{condition("Ready", "True", "PaintedAgain")},
			[]metav1.Condition{stamped(condition("Ready", "True", "PaintedAgain"), 7, early)},
		},
		"a condition with another status gets the time now": {
			[]metav1.Condition{stamped(ready, 6, early)},
			[]metav1.Condition{condition("Ready", "False", "Painted")},
			[]metav1.Condition{stamped(condition("Ready", "False", "Painted"), 7, late)},
		},
		"a time that was set on the way does not count": {
			[]metav1.Condition{stamped(ready, 6, early)},
			[]metav1.Condition{stamped(ready, 1, late)},
			[]metav1.Condition{stamped(ready, 7, early)},
		},
		"a removed condition stays removed": {
			[]metav1.Condition{stamped(condition("Stalled", "True", "Stuck"), 6, early), stamped(ready, 6, early)},
			[]metav1.Condition{ready},
			[]metav1.Condition{stamped(ready, 7, early)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := fmt.Sprint(test.old)
			conditions.Stamp(test.old, &test.list, 7, late)
			if diff := cmp.Diff(test.want, test.list); diff != "" {
				t.Errorf("wanted (-), got (+):\n%s", diff)
			}
			if fmt.Sprint(test.old) != before {
				t.Errorf("the old conditions became %v", test.old)
			}
		})
	}
}

// Conditions are a set: if a reconcile sets the same conditions in another order, nothing has changed.
func TestStampKeepsOrderOfLastReconcile(t *testing.T) {
	a := condition("A", "True", "R")
	b := condition("B", "True", "R")
	c := condition("C", "True", "R")
	d := condition("D", "True", "R")
	old := []metav1.Condition{stamped(a, 7, early), stamped(b, 7, early), stamped(c, 7, early)}
	list := []metav1.Condition{d, c, a}
	conditions.Stamp(old, &list, 7, late)
	want := []metav1.Condition{stamped(a, 7, early), stamped(c, 7, early), stamped(d, 7, late)}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("wanted (-), got (+):\n%s", diff)
	}
}
