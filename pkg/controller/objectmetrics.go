package controller

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/cache/lenient"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// Phased is implemented by objects with a status.phase, for the label phase of the metric windlass_objects.
type Phased interface {
	StatusPhase() string
}

// The values of the label state: the states of an object in docs/status.md, and paused and deleting.
const (
	stateReady       = "ready"
	stateProgressing = "progressing"
	stateIdle        = "idle"
	stateDegraded    = "degraded"
	stateStalled     = "stalled"
	statePaused      = "paused"
	stateDeleting    = "deleting"
)

// unfinished are the states that end without a user's action, so that a long time in one of them is suspicious.
var unfinished = []string{stateProgressing, stateDegraded, stateDeleting}

const (
	// maxSeries limits the series of windlass_objects of a kind. Phases and reasons are identifiers of the operator, but a
	// client with the permission to write a status could write any number of others.
	maxSeries = 64
	// other is the phase and the reason of objects beyond maxSeries.
	other = "Other"
)

// objectLabels are labels of windlass_objects. reason is the reason of Ready.
type objectLabels struct {
	state, phase, reason string
	// unreadable says that the object is counted by windlass_unreadable_objects, too.
	unreadable bool
}

// objectMetrics counts the objects of a kind by their labels, and measures how long they take to become Ready. It is
// the handler of the informer of the kind. It remembers only the objects in unfinished states.
type objectMetrics struct {
	kind  string // the label controller
	clock clock.PassiveClock
	// finalizer is the name of Kind.Finalizer.
	finalizer string
	// expected is Kind.Expected.
	expected func(Object) (from time.Time, ok bool)

	mu      sync.Mutex
	counts  map[objectLabels]int
	unready map[Key]unready
	// ended is true after the controller has ended. Objects are then not counted any more.
	ended bool
}

// unready is an object in one of the unfinished states.
type unready struct {
	state string
	// since is when the object was last Ready, was created or was deleted, but at least the time of Expected.
	since time.Time
	// changed is when its spec changed, or zero if this process does not know. The time to Ready counts from changed or,
	// if it is later, from the time of Expected.
	changed time.Time
}

func newObjectMetrics(
	kind string, clk clock.PassiveClock, finalizer string, expected func(Object) (time.Time, bool),
) *objectMetrics {
	return &objectMetrics{
		kind: kind, clock: clk, finalizer: finalizer, expected: expected, counts: map[objectLabels]int{},
		unready: map[Key]unready{},
	}
}

// stateOf returns the state of an object according to its conditions. It ignores conditions of a previous generation.
func stateOf(obj Object) string {
	is := func(kind string) bool { return conditions.IsTrue(*obj.StatusConditions(), kind) }
	switch {
	case obj.GetDeletionTimestamp() != nil:
		return stateDeleting
	case isPaused(obj):
		return statePaused
	case *obj.StatusObservedGeneration() != obj.GetGeneration():
		return stateProgressing
	case is(conditions.Ready):
		return stateReady
	case is(conditions.Stalled):
		return stateStalled
	case is(conditions.Degraded):
		return stateDegraded
	case conditions.Find(*obj.StatusConditions(), conditions.Progressing) != nil && !is(conditions.Progressing):
		return stateIdle
	}
	return stateProgressing
}

func labelsOf(obj Object) objectLabels {
	s := objectLabels{state: stateOf(obj), unreadable: lenient.MarkOn(obj) != nil}
	if phased, ok := obj.(Phased); ok {
		s.phase = phased.StatusPhase()
	}
	if ready := conditions.Find(*obj.StatusConditions(), conditions.Ready); ready != nil {
		s.reason = ready.Reason
	}
	return s
}

// OnAdd implements cache.ResourceEventHandler.
func (m *objectMetrics) OnAdd(obj any, isInInitialList bool) {
	object := obj.(Object)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.move(objectLabels{}, labelsOf(object))
	changed := time.Time{}
	switch {
	case !isInInitialList:
		changed = m.clock.Now()
	case object.GetGeneration() == 1:
		changed = object.GetCreationTimestamp().Time // the spec is the spec of the creation
	}
	m.remember(object, changed)
}

// OnUpdate implements cache.ResourceEventHandler.
func (m *objectMetrics) OnUpdate(oldObj, newObj any) {
	before, after := oldObj.(Object), newObj.(Object)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.move(labelsOf(before), labelsOf(after))
	was := m.unready[cache.MetaObjectToName(after)]
	if before.GetUID() != after.GetUID() || before.GetGeneration() != after.GetGeneration() {
		was.changed = m.clock.Now()
	} else if from, ok := m.expected(after); ok && stateOf(after) == stateReady && !was.changed.IsZero() {
		timeToReady.WithLabelValues(m.kind).Observe(max(0, m.clock.Since(latest(was.changed, from))).Seconds())
	}
	m.remember(after, was.changed)
}

// OnDelete implements cache.ResourceEventHandler.
func (m *objectMetrics) OnDelete(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	object, ok := obj.(Object)
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.move(labelsOf(object), objectLabels{})
	delete(m.unready, cache.MetaObjectToName(object))
}

// move counts a change of the labels of an object. The zero value stands for an object that does not exist.
func (m *objectMetrics) move(from, to objectLabels) {
	if from == to || m.ended {
		return
	}
	for s, by := range map[objectLabels]int{from: -1, to: 1} {
		if s == (objectLabels{}) {
			continue
		}
		if _, known := m.counts[s]; !known && len(m.counts) >= maxSeries {
			s = objectLabels{s.state, other, other, s.unreadable}
		}
		m.counts[s] += by
		m.count(s, by)
	}
}

// count adds a number of objects with the same labels to the metrics.
func (m *objectMetrics) count(s objectLabels, by int) {
	objects.WithLabelValues(m.kind, s.state, s.phase, s.reason).Add(float64(by))
	if s.unreadable {
		unreadableObjects.WithLabelValues(m.kind).Add(float64(by))
	}
}

// remember remembers an object while it is in an unfinished state. changed is when its spec has changed, or zero.
func (m *objectMetrics) remember(obj Object, changed time.Time) {
	key, state := cache.MetaObjectToName(obj), stateOf(obj)
	from, awaited := m.expected(obj)
	if !m.follows(obj, state, awaited) {
		delete(m.unready, key)
		return
	}
	m.unready[key] = unready{state: state, since: latest(m.since(key, obj, state), from), changed: changed}
}

// follows reports whether an object waits for the operator. awaited says whether the object is expected to become
// Ready.
func (m *objectMetrics) follows(obj Object, state string, awaited bool) bool {
	if state == stateDeleting { // an object with somebody else's finalizer does not wait for the operator
		return m.finalizer != "" && slices.Contains(obj.GetFinalizers(), m.finalizer)
	}
	return awaited && slices.Contains(unfinished, state)
}

// since returns the time since which an object has been in an unfinished state.
func (m *objectMetrics) since(key Key, obj Object, state string) time.Time {
	ready := conditions.Find(*obj.StatusConditions(), conditions.Ready)
	switch {
	case state == stateDeleting:
		return obj.GetDeletionTimestamp().Time
	case ready == nil:
		return obj.GetCreationTimestamp().Time
	case ready.Status != metav1.ConditionTrue:
		return ready.LastTransitionTime.Time
	}
	// Ready is True, for a previous spec.
	if was, known := m.unready[key]; known && was.state == state {
		return was.since
	}
	return m.clock.Now()
}

// ages returns the age of the oldest unfinished object, by state.
func (m *objectMetrics) ages() map[string]time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	ages := map[string]time.Duration{}
	for _, state := range unfinished {
		ages[state] = 0
	}
	for _, u := range m.unready {
		ages[u.state] = max(ages[u.state], m.clock.Since(u.since))
	}
	return ages
}

// removeAll subtracts the counted objects from the metrics.
func (m *objectMetrics) removeAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	for s, n := range m.counts {
		m.count(s, -n)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
