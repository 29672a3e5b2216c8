package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// selfName is the name under which a Tracker records the object of a key. Children have other names.
const selfName = ""

// finalize calls Finalize, and then removes the finalizer. It does nothing for an object without the finalizer, because
// garbage collection deletes the children of the object. It also does nothing for an object whose finalizer this
// process has removed.
func (p *Pipeline[T]) finalize(ctx context.Context, key Key, cached T) (Result, error) {
	if !slices.Contains(cached.GetFinalizers(), p.Finalizer.Name) || p.Tracker.IsDeleted(key, selfName, cached.GetUID()) {
		return Result{}, nil
	}
	obj, finalizable, readErr := p.objectToFinalize(ctx, key, cached)
	// The call includes the removal of the finalizer, so that the status also reports a failed removal.
	result, err := p.callAndWriteStatus(ctx, key, obj, func(ctx context.Context, obj T) (Result, error) {
		if readErr != nil {
			return Result{}, readErr
		}
		if finalizable {
			if result, err := p.Finalizer.Finalize(ctx, obj); err != nil || result.RequeueAfter > 0 {
				return result, err
			}
		}
		return Result{}, p.removeFinalizer(ctx, key, obj)
	})
	return result, err
}

// removeFinalizer removes the finalizer from an object that is finalized.
func (p *Pipeline[T]) removeFinalizer(ctx context.Context, key Key, obj T) error {
	if _, err := p.setFinalizers(ctx, key, obj, p.otherFinalizers(obj)); err != nil {
		return messageFinalizer.Error(p.GroupVersionKind.Kind, key, err)
	}
	p.Tracker.Deleted(key, selfName, obj.GetUID())
	return nil
}

// ensureFinalizer adds a missing finalizer before the kind creates anything that Finalize must delete, and removes a
// finalizer that is not needed.
func (p *Pipeline[T]) ensureFinalizer(ctx context.Context, key Key, obj T) (T, error) {
	needed := p.Finalizer.Name != "" && (p.Finalizer.Needed == nil || p.Finalizer.Needed(obj))
	if needed == slices.Contains(obj.GetFinalizers(), p.Finalizer.Name) {
		return obj, nil
	}
	finalizers := p.otherFinalizers(obj)
	if needed {
		finalizers = append(finalizers, p.Finalizer.Name)
	}
	updated, err := p.setFinalizers(ctx, key, obj, finalizers)
	if err != nil {
		return obj, fmt.Errorf("changing the finalizer of %s %s: %w", p.GroupVersionKind.Kind, key, err)
	}
	return updated, nil
}

// otherFinalizers returns a copy of the finalizers of obj without that of the kind.
func (p *Pipeline[T]) otherFinalizers(obj T) []string {
	return slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == p.Finalizer.Name })
}

// setFinalizers writes the finalizers, with the UID and version of obj as the precondition.
func (p *Pipeline[T]) setFinalizers(ctx context.Context, key Key, obj T, finalizers []string) (T, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             obj.GetUID(),
		"resourceVersion": obj.GetResourceVersion(),
		"finalizers":      finalizers,
	}})
	if err != nil {
		return obj, err
	}
	p.Tracker.Sends(key)
	updated, err := p.Client(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return obj, ErrDeletionNotObserved
	}
	if err != nil {
		return obj, err
	}
	p.Tracker.Wrote(key, p.GroupVersionKind.Kind, p.Store, updated.GetResourceVersion())
	return updated, nil
}

// release calls Release, if it is set.
func (p *Pipeline[T]) release(ctx context.Context, key Key) (pending bool, err error) {
	if p.Release == nil {
		return false, nil
	}
	return p.Release(ctx, key)
}
