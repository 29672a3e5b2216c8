package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/controller/conditions"
)

// PausedAnnotation with the value "true" pauses an object: the operator writes neither the finalizers nor the children
// of the object. In the status, the operator sets only conditions: see Pipeline.pause. The operator continues when the
// annotation is removed.
const PausedAnnotation = AnnotationDomain + "/paused"

func isPaused(obj metav1.Object) bool { return obj.GetAnnotations()[PausedAnnotation] == "true" }

// pause adds the condition Paused to the status of a paused object. If the object is being deleted or was never
// reconciled, pause also sets Ready, to say why nothing happens. observedGeneration and the other conditions stay.
func (p *Pipeline[T]) pause(ctx context.Context, key Key, cached T) error {
	klog.FromContext(ctx).V(2).Info("Paused", "annotation", PausedAnnotation)
	if UnreadableIn(cached) != nil {
		return nil // the cached object lacks fields, so it must not be written
	}
	obj := cached.DeepCopyObject().(T)
	p.setPaused(obj)
	if equality.Semantic.DeepEqual(cached, obj) {
		return nil
	}
	if wait := p.Tracker.writeBudget.wait(key, p.Clock.Now()); wait > 0 {
		return Postpone(wait)
	}
	if err := p.sendStatus(ctx, key, obj); err != nil {
		return err
	}
	if note := transition(cached, obj, conditions.Paused); note != nil {
		p.Events.Event(obj, corev1.EventTypeNormal, note.Reason, note.Message)
	}
	return nil
}

// setPaused sets the conditions of a paused object.
func (p *Pipeline[T]) setPaused(obj T) {
	message := messagePaused.With(PausedAnnotation)
	set := func(kind string, status metav1.ConditionStatus, message string) {
		meta.SetStatusCondition(obj.StatusConditions(), metav1.Condition{
			Type: kind, Status: status, Reason: messagePaused.Reason, Message: message,
			ObservedGeneration: obj.GetGeneration(), LastTransitionTime: metav1.NewTime(p.Clock.Now()),
		})
	}
	set(conditions.Paused, metav1.ConditionTrue, message)
	ready := conditions.Find(*obj.StatusConditions(), conditions.Ready)
	switch {
	case obj.GetDeletionTimestamp() != nil:
		set(conditions.Ready, metav1.ConditionFalse, messagePausedDeletion.With(message))
	case ready == nil:
		set(conditions.Ready, metav1.ConditionUnknown, message)
	}
}
