package world

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
)

// client is the part of a generated client that these functions use.
type client[T controller.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error)
}

// update changes an object, and returns it as it is then.
func update[T controller.Object](t *testing.T, objects client[T], name string, change func(T)) (object T) {
	t.Helper()
	Eventually(t, name+" to be changed", func(ctx context.Context) (_ bool, err error) {
		if object, err = objects.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return false, err
		}
		change(object)
		object, err = objects.Update(ctx, object, metav1.UpdateOptions{})
		return err == nil, ignoreConflict(err)
	})
	return object
}

// with waits until the status of an object's newest generation is as wanted.
func with[T controller.Object](t *testing.T, objects client[T], name, what string, wanted func(T) bool) (object T) {
	t.Helper()
	Eventually(t, name+" to be "+what, func(ctx context.Context) (_ bool, err error) {
		object, err = objects.Get(ctx, name, metav1.GetOptions{})
		return err == nil && *object.StatusObservedGeneration() == object.GetGeneration() && wanted(object), err
	})
	return object
}

// readyFor tells whether the condition Ready has a reason.
func readyFor[T controller.Object](reason string) func(T) bool {
	return func(object T) bool {
		ready := meta.FindStatusCondition(*object.StatusConditions(), "Ready")
		return ready != nil && ready.Reason == reason
	}
}
