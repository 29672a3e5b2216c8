package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/cache/lenient"
	"windlass.dev/windlass/pkg/controller/conditions"
)

// Unreadable is the error for an object that is cached without its spec. Such an object is not reconciled. Its status
// says why, and it can be deleted.
type Unreadable struct {
	lenient.Mark // Reason, Size and Limit
	// Message says what cannot be read or which limit is exceeded, and what to do.
	Message string
}

// Error implements error.
func (u *Unreadable) Error() string { return u.Message }

// UnreadableIn returns why an object has no spec, or nil.
func UnreadableIn(obj metav1.Object) *Unreadable {
	mark := lenient.MarkOn(obj)
	if mark == nil {
		return nil
	}
	message := messageUnreadable.With(mark.Cause)
	switch mark.Reason {
	case lenient.ReasonTooLarge:
		message = messageTooLarge.With(mark.Size, mark.Limit)
	case lenient.ReasonBudgetExceeded:
		message = messageBudgetExceeded.With(mark.Limit)
	}
	return &Unreadable{*mark, message}
}

// unreadableRecheck is how often an object that exceeds the budget of its namespace is reconciled.
const unreadableRecheck = time.Minute

// Room reports whether the budget of a namespace has room for an object of a size in bytes: see Fits in
// pkg/cache/budget. A nil Room means that every budget has room.
type Room func(namespace string, uid types.UID, size int) bool

// noteRoom makes the cache read an object again that now fits into the budget: any change of the object makes the API
// server send the object again, and the cache then keeps its spec. The change is another message in the status.
// noteRoom returns why with this message, or why itself if the object does not fit.
func (r Room) noteRoom(obj metav1.Object, why *Unreadable) *Unreadable {
	if why.Reason != lenient.ReasonBudgetExceeded {
		return why
	}
	if fits := r == nil || r(obj.GetNamespace(), obj.GetUID(), why.Size); !fits {
		return why
	}
	again := *why
	again.Message = messageRoomAgain.With()
	return &again
}

// reportUnreadable writes to the status why an object is not reconciled. It also logs the reason, unless the status
// already has it.
func (p *Pipeline[T]) reportUnreadable(ctx context.Context, key Key, cached T, why *Unreadable) (Result, error) {
	why = p.Room.noteRoom(cached, why)
	said := conditions.Find(*cached.StatusConditions(), conditions.Ready)
	if said == nil || said.Message != why.Message || said.ObservedGeneration != cached.GetGeneration() {
		klog.FromContext(ctx).Error(nil, "Object is not reconciled", "reason", why.Reason, "message", why.Message)
	}
	_, err := p.callAndWriteStatus(ctx, key, cached, func(context.Context, T) (Result, error) { return Result{}, why })
	return Result{}, err
}

// objectToFinalize returns the object to pass to Finalize: cached or, if a limit kept its spec out of the cache, the
// object from the API server. finalizable is false if the spec cannot be read at all. The caller then removes the
// finalizer without calling Finalize.
func (p *Pipeline[T]) objectToFinalize(
	ctx context.Context, key Key, cached T,
) (obj T, finalizable bool, err error) {
	why := UnreadableIn(cached)
	if why == nil {
		return cached, true, nil
	}
	if why.Reason != lenient.ReasonUnreadable {
		obj, err = p.Client(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return cached, false, ErrDeletionNotObserved
		}
		if err != nil {
			return cached, false, fmt.Errorf("reading %s %s before it is finalized: %w", p.GroupVersionKind.Kind, key, err)
		}
		if obj.GetUID() != cached.GetUID() || obj.GetDeletionTimestamp() == nil ||
			!slices.Contains(obj.GetFinalizers(), p.Finalizer.Name) {
			return cached, false, ErrDeletionNotObserved
		}
		if UnreadableIn(obj) == nil {
			return obj, true, nil
		}
	}
	klog.FromContext(ctx).Error(nil, "Removing the finalizer without finalizing the object, because its spec cannot "+
		"be read; its data stays", "reason", why.Reason, "message", why.Message)
	return cached, false, nil
}
