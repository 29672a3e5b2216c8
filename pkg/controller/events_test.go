package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"windlass.dev/windlass/pkg/controller"
	"windlass.dev/windlass/pkg/controller/controllertest"
)

var eventResource = schema.GroupResource{Group: eventsv1.GroupName, Resource: "events"}

// eventServer is an API server for Events. Its first responses are the errors in answers. All later
// requests succeed.
type eventServer struct {
	eventsclient.EventsV1Interface
	answers  []error
	hang     chan struct{} // if it is set, requests block until it is closed or their context ends
	requests int
	stored   []*eventsv1.Event
}

type eventServerNamespace struct {
	eventsclient.EventInterface
	server    *eventServer
	namespace string
}

func (s *eventServer) Events(namespace string) eventsclient.EventInterface {
	return &eventServerNamespace{server: s, namespace: namespace}
}

func (n *eventServerNamespace) Create(
	ctx context.Context, event *eventsv1.Event, _ metav1.CreateOptions,
) (*eventsv1.Event, error) {
	s := n.server
	s.requests++
	if s.hang != nil {
		select {
		case <-s.hang:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if len(s.answers) > 0 {
		answer := s.answers[0]
		s.answers = s.answers[1:]
		return nil, answer
	}
	if event.Namespace != n.namespace {
		return nil, apierrors.NewBadRequest("the namespace of the event is not that of the request")
	}
	s.stored = append(s.stored, event)
	return event, nil
}

func newEvents(server *eventServer) *controller.Events {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(toyKind, &Toy{})
	return controller.NewEvents(server, scheme, "windlass.dev/controller", "pod-1",
		clocktesting.NewFakePassiveClock(epoch))
}

// flush writes the waiting Events, as at the end of the process.
func flush(events *controller.Events) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ctx, _ = logTo(ctx)
	events.Run(ctx)
}

// dropped returns how many Events were dropped in this process.
func dropped(t *testing.T) int {
	t.Helper()
	found := samples("windlass_events_dropped_total")
	if len(found) != 1 {
		t.Fatalf("found %q", found)
	}
	n, err := strconv.Atoi(strings.TrimPrefix(found[0], "windlass_events_dropped_total "))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEventDescribesObjectAndReason(t *testing.T) {
	server := &eventServer{}
	events := newEvents(server)
	toy := newToy("a")
	toy.UID, toy.ResourceVersion = "uid-a", "7"
	events.Event(toy, corev1.EventTypeWarning, "Peeling", "It peels.")
	cluster := newToy("c")
	cluster.Namespace, cluster.TypeMeta = "", metav1.TypeMeta{} // as an informer delivers it
	events.Event(cluster, corev1.EventTypeNormal, "Painted", "It is red.")
	flush(events)

	stamp := fmt.Sprintf("%x", epoch.UnixNano())
	controllertest.Equal(t, "events", []*eventsv1.Event{
		{
			ObjectMeta:          metav1.ObjectMeta{Namespace: "default", Name: "a." + stamp},
			EventTime:           metav1.NewMicroTime(epoch),
			ReportingController: "windlass.dev/controller",
			ReportingInstance:   "pod-1",
			Action:              "Reconcile",
			Type:                "Warning",
			Reason:              "Peeling",
			Note:                "It peels.",
			Regarding: corev1.ObjectReference{
				APIVersion: "toys.example.com/v1", Kind: "Toy", Namespace: "default", Name: "a", UID: "uid-a", ResourceVersion: "7",
			},
		},
		{
			ObjectMeta:          metav1.ObjectMeta{Namespace: "default", Name: "c." + stamp},
			EventTime:           metav1.NewMicroTime(epoch),
			ReportingController: "windlass.dev/controller",
			ReportingInstance:   "pod-1",
			Action:              "Reconcile",
			Type:                "Normal",
			Reason:              "Painted",
			Note:                "It is red.",
			Regarding:           corev1.ObjectReference{APIVersion: "toys.example.com/v1", Kind: "Toy", Name: "c"},
		},
	}, server.stored)
}

func TestEventFitsLimitsOfAPIServer(t *testing.T) {
	for name, test := range map[string]struct {
		object, note string
		wantNote     string
	}{
		"a longer note is cut":                     {"a", strings.Repeat("n", 2000), strings.Repeat("n", 1024)},
		"a letter is not cut in two":               {"a", "n" + strings.Repeat("ä", 1000), "n" + strings.Repeat("ä", 511)},
		"a note loses bytes that are not UTF-8":    {"a", "Fehler \xfcber Fehler", "Fehler ber Fehler"},
		"a name of the maximum length is cut":      {strings.Repeat("a", 253), "", ""},
		"a name is not cut before a hyphen":        {strings.Repeat("a", 229) + "-" + strings.Repeat("b", 20), "", ""},
		"a name is not cut before several hyphens": {strings.Repeat("a", 220) + strings.Repeat("-", 20) + "b", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := &eventServer{}
			events := newEvents(server)
			events.Event(newToy(test.object), corev1.EventTypeNormal, "Painted", test.note)
			flush(events)
			event := server.stored[0]
			if event.Note != test.wantNote || !utf8.ValidString(event.Note) {
				t.Errorf("the note is %q, of %d bytes", event.Note, len(event.Note))
			}
			if problems := validation.IsDNS1123Subdomain(event.Name); len(problems) > 0 {
				t.Errorf("the API server rejects the name %s: %s", event.Name, problems)
			}
			if event.Regarding.Name != test.object {
				t.Errorf("the event is about %s", event.Regarding.Name)
			}
		})
	}
}

func TestEventRetriesFailedWrite(t *testing.T) {
	away := errors.New("connection refused")
	for name, test := range map[string]struct {
		answers           []error
		requests, dropped int
	}{
		"an Event that exists already was written by an earlier attempt": {
			[]error{away, apierrors.NewAlreadyExists(eventResource, "a")}, 2, 0,
		},
		"a write without a response is retried": {[]error{away, away, away}, 4, 0},
		"a write that the server failed to process is retried": {
			[]error{
				apierrors.NewInternalError(away), apierrors.NewTooManyRequests("slowly", 1),
				apierrors.NewServiceUnavailable("soon"),
			}, 4, 0,
		},
		"a write is attempted four times at most": {[]error{away, away, away, away}, 4, 1},
		"an Event that the API server rejects is dropped": {
			[]error{apierrors.NewForbidden(eventResource, "a", errors.New("the namespace is being terminated"))}, 1, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := dropped(t)
				server := &eventServer{answers: test.answers}
				events := newEvents(server)
				events.Event(newToy("a"), corev1.EventTypeNormal, "Painted", "")
				flush(events)
				if n := dropped(t) - before; server.requests != test.requests || n != test.dropped {
					t.Errorf("%d requests and %d dropped, wanted %d and %d", server.requests, n, test.requests, test.dropped)
				}
			})
		})
	}
}

// running runs events until stop is called. ended is closed when Run has returned.
func running(events *controller.Events) (stop func(), ended <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	ctx, _ = logTo(ctx)
	done := make(chan struct{})
	go func() { events.Run(ctx); close(done) }()
	return cancel, done
}

func TestEventsAreFlushedOnShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &eventServer{}
		events := newEvents(server)
		stop, ended := running(events)
		events.Event(newToy("a"), corev1.EventTypeNormal, "Painted", "")
		synctest.Wait()
		if len(server.stored) != 1 {
			t.Fatalf("%d events are written, wanted 1", len(server.stored))
		}
		server.hang = make(chan struct{})
		for _, name := range []string{"b", "c", "d"} {
			events.Event(newToy(name), corev1.EventTypeNormal, "Painted", "")
		}
		synctest.Wait() // the request for b is in flight
		stop()
		close(server.hang)
		<-ended
		if len(server.stored) != 4 {
			t.Errorf("%d events are written, wanted 4", len(server.stored))
		}
	})
}

func TestEventsStopIfAPIServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := dropped(t)
		server := &eventServer{hang: make(chan struct{})}
		events := newEvents(server)
		stop, ended := running(events)
		for _, name := range []string{"a", "b"} {
			events.Event(newToy(name), corev1.EventTypeNormal, "Painted", "")
		}
		synctest.Wait() // the request for a is in flight
		stop()
		select {
		case <-ended:
			if n := dropped(t) - before; n != 2 {
				t.Errorf("%d events were dropped, wanted 2", n)
			}
		case <-time.After(time.Hour): // fake time
			t.Error("Run has not returned")
			close(server.hang)
			<-ended
		}
	})
}

func TestEventOfUnknownTypeIsDropped(t *testing.T) {
	before := dropped(t)
	server := &eventServer{}
	events := controller.NewEvents(server, runtime.NewScheme(), "windlass.dev/controller", "pod-1",
		clocktesting.NewFakePassiveClock(epoch))
	toy := newToy("a")
	toy.TypeMeta = metav1.TypeMeta{}
	events.Event(toy, corev1.EventTypeNormal, "Painted", "")
	flush(events)
	if n := dropped(t) - before; n != 1 || len(server.stored) != 0 {
		t.Errorf("%d events were dropped and %d written, wanted 1 and 0", n, len(server.stored))
	}
}
