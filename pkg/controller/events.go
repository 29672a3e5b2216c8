package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// maxNote is how many bytes the note of an Event may have (k8s.io/kubernetes, validation of Event).
	maxNote = 1024
	// maxEventNamePrefix is how many bytes of an object's name go into the name of an Event. The name of an Event also
	// contains a time, and may have at most 253 bytes.
	maxEventNamePrefix = 230
	// eventsWaiting is how many Events of all namespaces together may wait to be written.
	eventsWaiting = 4096
	// eventBurst is how many Events one object may have at once. After that, the object may have one more per
	// eventInterval, as with the recorder of client-go. Further Events are dropped.
	eventBurst    = 25
	eventInterval = 5 * time.Minute
	// eventTimeout limits the write of one Event, including retries. At the end of the process, eventTimeout limits the
	// writes of all waiting Events together.
	eventTimeout = 5 * time.Second
)

// Events is an EventRecorder that creates Events of events.k8s.io/v1.
//
// It replaces the recorder of client-go, which drops the last Events when a process ends, because
// nothing can wait for that recorder. Events does not count repetitions, because each Event is about
// a transition.
type Events struct {
	client     eventsclient.EventsV1Interface
	scheme     *runtime.Scheme
	controller string
	instance   string
	clock      clock.PassiveClock
	waiting    *eventQueue
	objects    *budget[source]
}

// source identifies an object that Events are about.
type source struct{ kind, namespace, name string }

// NewEvents returns a recorder for the types in scheme. controller names the operator in its Events, for
// example windlass.dev/controller, and instance names this process among the operator's replicas.
func NewEvents(
	client eventsclient.EventsV1Interface, scheme *runtime.Scheme, controller, instance string, clk clock.PassiveClock,
) *Events {
	return &Events{
		client: client, scheme: scheme, controller: controller, instance: instance, clock: clk,
		waiting: newEventQueue(eventsWaiting), objects: newBudget[source](eventBurst, eventInterval),
	}
}

// Event implements EventRecorder. It drops and counts Events beyond two limits. One object may have 25 Events at once,
// and one more every 5 minutes. If more than 4096 Events wait, Event drops the newest Event of the namespace with the
// most waiting Events.
func (e *Events) Event(regarding Object, eventType, reason, note string) {
	ref, err := reference.GetReference(e.scheme, regarding)
	if err != nil {
		eventsDropped.Inc()
		return
	}
	object, now := source{ref.Kind, ref.Namespace, ref.Name}, e.clock.Now()
	if e.objects.wait(object, now) > 0 {
		eventsDropped.Inc()
		return
	}
	e.objects.spend(object, now)
	if e.waiting.add(e.event(ref, eventType, reason, note)) {
		eventsDropped.Inc()
	}
}

func (e *Events) event(ref *corev1.ObjectReference, eventType, reason, note string) *eventsv1.Event {
	now := e.clock.Now()
	namespace := ref.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // required for Events of cluster-scoped objects
	}
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      fmt.Sprintf("%s.%x", strings.TrimRight(cut(ref.Name, maxEventNamePrefix), "-."), now.UnixNano()),
		},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: e.controller,
		ReportingInstance:   e.instance,
		Action:              "Reconcile",
		Type:                eventType,
		Reason:              reason,
		Note:                cut(note, maxNote),
		Regarding:           *ref,
	}
}

// Run writes Events until ctx ends. It then finishes the write in flight, and writes the waiting Events
// within 5 s. The write in flight takes at most 5 s, too.
func (e *Events) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if event := e.waiting.take(); event != nil {
			e.write(context.WithoutCancel(ctx), event) // a write that has begun is not interrupted
			continue
		}
		select {
		case <-e.waiting.added:
		case <-ctx.Done():
		}
	}
	e.flush(context.WithoutCancel(ctx))
}

func (e *Events) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	for event := e.waiting.take(); event != nil; event = e.waiting.take() {
		e.write(ctx, event)
	}
}

// write creates event. It retries if it gets no response or a temporary error. All attempts use the same
// name, so that a retry after a lost response creates no second Event.
func (e *Events) write(ctx context.Context, event *eventsv1.Event) {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	var last error // of the last response; temporary if all attempts failed
	unanswered := wait.ExponentialBackoffWithContext(ctx, wait.Backoff{
		Duration: 100 * time.Millisecond, Factor: 3, Steps: 4,
	},
		func(ctx context.Context) (bool, error) {
			_, err := e.client.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				err = nil
			}
			last = err
			return err == nil || IsRejected(err), nil
		})
	if last != nil || unanswered != nil {
		eventsDropped.Inc()
		klog.FromContext(ctx).V(2).Info("Dropped an event", "object",
			klog.KRef(event.Regarding.Namespace, event.Regarding.Name), "reason", event.Reason, "err", last)
	}
}

// IsRejected reports whether the API server has rejected a request, and would reject the same request again. It returns
// false for temporary errors. After a temporary error such as a timeout, the API server may still carry out the
// request.
func IsRejected(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnknown, metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable,
		metav1.StatusReasonTooManyRequests, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout:
		return false
	default:
		return true
	}
}

func cut(s string, n int) string {
	s = strings.ToValidUTF8(s, "")
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") // removes an incomplete character at the end
}
