package controller

import (
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"windlass.dev/windlass/pkg/cache/lenient"
)

// counted is an object with a phase and conditions.
type counted struct {
	corev1.ConfigMap
	conditions []metav1.Condition
	observed   int64
	phase      string
}

func (c *counted) StatusConditions() *[]metav1.Condition { return &c.conditions }
func (c *counted) StatusObservedGeneration() *int64      { return &c.observed }
func (c *counted) StatusPhase() string                   { return c.phase }

// tally is a set of objects with their metrics.
type tally struct {
	*objectMetrics
	clock *clocktesting.FakePassiveClock
	began time.Time
}

func newTally(t *testing.T, expected func(Object) (time.Time, bool)) *tally {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clk := clocktesting.NewFakePassiveClock(began)
	if expected == nil {
		expected = func(Object) (time.Time, bool) { return time.Time{}, true }
	}
	return &tally{newObjectMetrics(strings.ToLower(t.Name()), clk, "windlass.dev/test", expected), clk, began}
}

func (y *tally) after(d time.Duration) { y.clock.SetTime(y.began.Add(d)) }

// object returns a new object without a status.
func (y *tally) object(name string) *counted {
	return &counted{ConfigMap: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.NewTime(y.clock.Now()),
	}}}
}

// reconciled returns a copy of obj with the conditions of a state.
func (y *tally) reconciled(obj *counted, state State, reason string) *counted {
	after := *obj
	after.conditions, after.observed, after.phase = nil, obj.Generation, "Phase"
	Summary{State: state, Note: Note{Reason: reason, Message: "It is so."}}.SetOn(&after)
	for i := range after.conditions {
		after.conditions[i].LastTransitionTime = metav1.NewTime(y.clock.Now())
	}
	return &after
}

// changed returns a copy of obj with another spec.
func changed(obj *counted) *counted {
	after := *obj
	after.Generation++
	return &after
}

// served returns the samples of a metric of the kind, without the label controller.
func (y *tally) served(metric string) map[string]string {
	UpdateMetrics([]*Controller{{name: y.kind, objects: y.objectMetrics}})
	response := httptest.NewRecorder()
	legacyregistry.Handler().ServeHTTP(response, httptest.NewRequest("GET", "/metrics", nil))
	found, label := map[string]string{}, metric+`{controller="`+y.kind+`"`
	for line := range strings.Lines(response.Body.String()) {
		if sample, of := strings.CutPrefix(strings.TrimSpace(line), label); of {
			labels, value, _ := strings.Cut(sample, "} ")
			found[strings.TrimPrefix(labels, ",")] = value
		}
	}
	return found
}

func (y *tally) ages() map[string]string {
	ages := y.served("windlass_oldest_unready_object_age_seconds")
	maps.DeleteFunc(ages, func(_, age string) bool { return age == "0" })
	return ages
}

func TestObjectsAreCountedByStatePhaseAndReason(t *testing.T) {
	y := newTally(t, nil)
	isNew, web := y.object("new"), y.object("web")
	y.OnAdd(isNew, true)
	y.OnAdd(web, false)
	for _, step := range []struct {
		state  State
		reason string
	}{
		{StateProgressing, "RollingOut"}, {StateDegraded, "ImageNotFound"}, {
			StateStalled, "Invalid",
		}, {StateIdle, "Suspended"}, {StateReady, "Available"},
	} {
		after := y.reconciled(web, step.state, step.reason)
		y.OnUpdate(web, after)
		web = after
	}
	paused := *web
	paused.Annotations = map[string]string{PausedAnnotation: "true"}
	y.OnAdd(y.object("gone"), false)
	y.OnDelete(cache.DeletedFinalStateUnknown{Key: "shop/gone", Obj: y.object("gone")})
	y.OnAdd(&paused, true)
	deleted := *web
	deleted.DeletionTimestamp = &metav1.Time{Time: y.began}
	y.OnAdd(&deleted, true)
	for _, name := range []string{"large", "larger"} {
		obj := y.reconciled(y.object(name), StateStalled, lenient.ReasonTooLarge)
		if err := (lenient.Mark{Reason: lenient.ReasonTooLarge}).SetOn(obj); err != nil {
			t.Fatal(err)
		}
		y.OnAdd(obj, true)
		if name == "larger" {
			y.OnDelete(obj)
		}
	}
	if got := y.served("windlass_unreadable_objects")[""]; got != "1" {
		t.Errorf("%s objects are unreadable, want 1", got)
	}
	want := map[string]string{
		`phase="",reason="",state="progressing"`:                "1",
		`phase="Phase",reason="RollingOut",state="progressing"`: "0",
		`phase="Phase",reason="ImageNotFound",state="degraded"`: "0",
		`phase="Phase",reason="Invalid",state="stalled"`:        "0",
		`phase="Phase",reason="TooLarge",state="stalled"`:       "1",
		`phase="Phase",reason="Suspended",state="idle"`:         "0",
		`phase="Phase",reason="Available",state="ready"`:        "1",
		`phase="Phase",reason="Available",state="paused"`:       "1",
		`phase="Phase",reason="Available",state="deleting"`:     "1",
	}
	if got := y.served("windlass_objects"); !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestNumberOfSeriesIsLimited(t *testing.T) {
	y := newTally(t, nil)
	var all []*counted
	for n := range 1000 {
		obj := y.reconciled(y.object(fmt.Sprint(n)), StateReady, fmt.Sprint("Reason", n))
		y.OnAdd(obj, false)
		all = append(all, obj)
	}
	got := y.served("windlass_objects")
	if len(got) != maxSeries+1 || got[`phase="Other",reason="Other",state="ready"`] != fmt.Sprint(1000-maxSeries) {
		t.Errorf("1000 reasons have %d series, want %d; the last counts %s", len(got), maxSeries+1,
			got[`phase="Other",reason="Other",state="ready"`])
	}
	for _, obj := range all {
		y.OnDelete(obj)
	}
	for labels, count := range y.served("windlass_objects") {
		if count != "0" {
			t.Errorf("after all objects are deleted, %s counts %s", labels, count)
		}
	}
}

func TestAgeOfOldestUnreadyObject(t *testing.T) {
	y := newTally(t, nil)
	first, second := y.object("first"), y.object("second")
	y.OnAdd(first, false)
	y.after(time.Minute)
	y.OnAdd(second, false)
	starting := y.reconciled(second, StateDegraded, "CrashLoop")
	y.OnUpdate(second, starting)
	y.after(10 * time.Minute)
	if got, want := y.ages(), (map[string]string{
		`state="progressing"`: "600", `state="degraded"`: "540",
	}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	ready := y.reconciled(first, StateReady, "Available")
	y.OnUpdate(first, ready)
	stalled := y.reconciled(starting, StateStalled, "Invalid")
	y.OnUpdate(starting, stalled)
	if got := y.ages(); len(got) != 0 {
		t.Errorf("a Ready object and an object that waits for its user have the ages %v", got)
	}
	edited := changed(ready) // Ready is still True, for the previous spec
	y.OnUpdate(ready, edited)
	y.after(15 * time.Minute)
	annotated := *edited
	y.OnUpdate(edited, &annotated)
	deleted := *stalled
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{
		Time: y.began.Add(12 * time.Minute),
	}, []string{"windlass.dev/test"}
	y.OnUpdate(stalled, &deleted)
	if got, want := y.ages(), (map[string]string{
		`state="progressing"`: "300", `state="deleting"`: "180",
	}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	foreign := deleted // a tenant's finalizer keeps it
	foreign.Finalizers = []string{"example.com/mine"}
	y.OnUpdate(&deleted, &foreign)
	if got, want := y.ages(), (map[string]string{`state="progressing"`: "300"}); !maps.Equal(got, want) {
		t.Errorf("with somebody else's finalizer, got %v, want %v", got, want)
	}
	y.OnDelete(&foreign)
	y.OnDelete(&annotated)
	if len(y.unready) != 0 {
		t.Errorf("%d deleted objects are remembered", len(y.unready))
	}
}

func TestTimeToReadyBeginsWithLastChange(t *testing.T) {
	y := newTally(t, nil)
	sum := func() string {
		return y.served("windlass_time_to_ready_seconds_count")[""] + " " + y.served("windlass_time_to_ready_seconds_sum")[""]
	}
	existing := y.reconciled(y.object("existing"), StateReady, "Available")
	y.OnAdd(existing, true) // an object that was Ready before this process started is not measured
	web := y.object("web")
	y.OnAdd(web, false)
	y.after(2 * time.Second)
	ready := y.reconciled(web, StateReady, "Available")
	y.OnUpdate(web, ready)
	if got := sum(); got != "1 2" {
		t.Fatalf("after 2 s: count and sum are %s", got)
	}
	crashing := y.reconciled(ready, StateProgressing, "RollingOut") // without a change of the spec
	y.OnUpdate(ready, crashing)
	y.after(100 * time.Second)
	ready = y.reconciled(crashing, StateReady, "Available")
	y.OnUpdate(crashing, ready)
	if got := sum(); got != "1 2" {
		t.Errorf("after a crash: count and sum are %s", got)
	}
	edited := changed(ready)
	y.OnUpdate(ready, edited)
	y.after(110 * time.Second)
	again := changed(edited)
	y.OnUpdate(edited, again)
	y.after(113 * time.Second)
	ready = y.reconciled(again, StateReady, "Available")
	y.OnUpdate(again, ready)
	y.OnUpdate(ready, y.reconciled(ready, StateReady, "Available"))
	if got := sum(); got != "2 5" {
		t.Errorf("after two changes: count and sum are %s", got)
	}
}

func TestObjectIsNotLateBeforeItIsExpected(t *testing.T) {
	tomorrow := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	y := newTally(t, func(obj Object) (time.Time, bool) { return tomorrow, obj.(*counted).phase != "Running" })
	at := y.object("at")
	y.OnAdd(at, false)
	y.after(23 * time.Hour)
	if got := y.ages(); len(got) != 0 {
		t.Errorf("before its time, the object has the age %v", got)
	}
	y.after(25 * time.Hour)
	if got, want := y.ages(), (map[string]string{`state="progressing"`: "3600"}); !maps.Equal(got, want) {
		t.Errorf("an hour after its time: got %v, want %v", got, want)
	}
	running := y.reconciled(at, StateProgressing, "Running")
	running.phase = "Running"
	y.OnUpdate(at, running)
	if got := y.ages(); len(got) != 0 {
		t.Errorf("an object that may take as long as it needs has the age %v", got)
	}
}

// TestControllersOfOneKindAddUp runs two instances of a controller in one process. Then one of them ends.
func TestControllersOfOneKindAddUp(t *testing.T) {
	y := newTally(t, nil)
	ended := &Controller{name: y.kind, objects: newObjectMetrics(y.kind, y.clock, "", y.expected)}
	initMetrics(y.kind, 10)
	initMetrics(y.kind, 10)
	y.OnAdd(y.object("web"), false)
	ended.objects.OnAdd(y.object("api"), false)
	served := func(when, objects, workers string) {
		t.Helper()
		if got := y.served("windlass_objects")[`phase="",reason="",state="progressing"`]; got != objects {
			t.Errorf("%s: %s objects, want %s", when, got, objects)
		}
		if got := y.served("controller_runtime_max_concurrent_reconciles")[""]; got != workers {
			t.Errorf("%s: %s workers, want %s", when, got, workers)
		}
	}
	served("with two", "2", "20")
	ended.removeMetrics(10)
	ended.objects.OnAdd(y.object("late"), false)
	served("after one has ended", "1", "10")
}

// never is a cache that never syncs.
type never struct{}

func (never) Name() string          { return "never" }
func (never) Done() <-chan struct{} { return nil }

func TestControllerThatEndsBeforeItsCachesHaveSyncedCountsNothing(t *testing.T) {
	y := newTally(t, nil)
	c := &Controller{
		name: y.kind, queue: NewQueue("", clock.RealClock{}), objects: y.objectMetrics,
		cachesSynced: []cache.DoneChecker{never{}},
	}
	c.objects.OnAdd(y.object("web"), true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Run(ctx, 1); err == nil {
		t.Error("Run did not fail")
	}
	if got := y.served("windlass_objects")[`phase="",reason="",state="progressing"`]; got != "0" {
		t.Errorf("%s objects are left", got)
	}
}
