package framework

import (
	"context"
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/controller"
)

// client is the part of a generated client that the functions in this file use.
type client[T controller.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error)
}

// update changes an object, and returns the updated object. It retries after a conflict.
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

// with waits until the status of an object reflects its newest generation, and wanted returns true. It returns the
// object. what describes the wanted state in the message of a failure.
func with[T controller.Object](t *testing.T, objects client[T], name, what string, wanted func(T) bool) (object T) {
	t.Helper()
	err := Await(t.Context(), func(ctx context.Context) (_ bool, err error) {
		object, err = objects.Get(ctx, name, metav1.GetOptions{})
		return err == nil && *object.StatusObservedGeneration() == object.GetGeneration() && wanted(object), err
	})
	if err != nil {
		last, _ := json.Marshal(object)
		t.Fatalf("waiting for %s to be %s: %v; the last object: %s", name, what, err, last)
	}
	return object
}

// readyFor returns a function that reports whether the condition Ready has the given reason.
func readyFor[T controller.Object](reason string) func(T) bool {
	return func(object T) bool {
		ready := meta.FindStatusCondition(*object.StatusConditions(), "Ready")
		return ready != nil && ready.Reason == reason
	}
}
