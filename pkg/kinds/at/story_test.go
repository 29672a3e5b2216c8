package at

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "windlass.dev/windlass/pkg/apis/cnat/v1"
	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

// story is one reconcile: the state before it, and its effects.
type story struct {
	now      time.Duration    // after noon
	at       *v1.At           // as the cache has it
	onServer func(*v1.At)     // the difference of the server's At
	begun    bool             // this process has stored the start
	cached   []*corev1.Pod    // as the cache has them
	live     []*corev1.Pod    // as the server has them, if different
	refuse   map[string]error // by "verb resource": the error of the server

	after      time.Duration // waited for in parts of clockCheck; a new phase continues at once
	err        string        // a part of it
	gets       []string
	writes     []string
	events     []string
	status     string
	conditions []string // nil means unchanged
	next       []string // the writes of the next reconcile, with up-to-date caches
}

// tell runs each story twice: with cached Pods as the server has them, and with trimmed ones.
func tell(t *testing.T, stories map[string]story) {
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			s.happens(t, false)
			s.happens(t, true)
		})
	}
}

func (s story) happens(t *testing.T, trim bool) {
	t.Helper()
	w := newWorld(t, noon.Add(s.now), trim)
	controllertest.Load(t, w.ats, s.at)
	w.cachePods(s.cached...)
	live := s.at.DeepCopy()
	if s.onServer != nil {
		s.onServer(live)
	}
	w.put(w.cnat.Tracker(), live)
	if s.live == nil {
		s.live = s.cached
	}
	for _, p := range s.live {
		w.put(w.kube.Tracker(), runtime.Object(p))
	}
	for request, err := range s.refuse {
		verb, resource, _ := strings.Cut(request, " ")
		w.journal.FailNext(verb, resource, err)
	}
	if s.begun {
		w.kind.starts.begin(s.at)
	}

	result, err := w.pass()
	after := min(s.after, clockCheck)
	if at := w.at(); err == nil && after == 0 && at != nil && at.Status.Phase != s.at.Status.Phase {
		after = controller.Continue().RequeueAfter
	}
	controllertest.Equal(t, "RequeueAfter", after, result.RequeueAfter)
	controllertest.Equal(t, "a mere check", s.after > clockCheck, result.Check)
	if (err == nil) != (s.err == "") || err != nil && !strings.Contains(err.Error(), s.err) {
		t.Errorf("error: wanted %q, got %v", s.err, err)
	}
	controllertest.Equal(t, "gets", s.gets, w.gets)
	controllertest.Equal(t, "writes", s.writes, w.journal.Writes())
	controllertest.Equal(t, "events", s.events, w.events.Events())
	controllertest.Equal(t, "status", s.status, summary(w.at()))
	switch at := w.at(); {
	case at == nil:
	case s.conditions == nil:
		controllertest.Equal(t, "conditions", live.Status.Conditions, at.Status.Conditions)
	default:
		controllertest.Equal(t, "conditions", s.conditions, controllertest.Conditions(at))
	}

	w.deliver()
	_, _ = w.pass() // the writes show its result
	controllertest.Equal(t, "writes of the next pass", s.next, w.journal.Writes()[len(s.writes):])
}
