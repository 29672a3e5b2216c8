package controller

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"windlass.dev/windlass/pkg/controller/conditions"
)

// UnreadableAnnotation marks an object in memory that lacks fields of the stored object. Unreadable.Mark sets it. It is
// never stored.
const UnreadableAnnotation = AnnotationDomain + "/unreadable"

// token is a secret in every mark that this process sets. A mark without it was set by a user, and is
// ignored.
var token = rand.Text()

// mark is the value of UnreadableAnnotation, as JSON.
type mark struct {
	Unreadable
	Token string `json:"token"`
}

// Unreadable says why a cached object has no spec. Such an object is not reconciled. Its status says why, and it can
// be deleted.
type Unreadable struct {
	// Reason is the reason of the condition Stalled, an identifier in CamelCase.
	Reason string `json:"reason"`
	// Message is a sentence that says what cannot be read, or names the limit, and says what to do.
	Message string `json:"message"`
	// Stored is true if the API server returns a spec that can be read.
	Stored bool `json:"stored,omitempty"`
	// StatusLost is true if the cached object has no status either, although the stored object has one. A write of
	// the status would remove it.
	StatusLost bool `json:"statusLost,omitempty"`
	// Size is how many bytes of its namespace's budget the object needs, if its spec is not cached
	// because the budget is used up. Zero means that there is another reason.
	Size int `json:"size,omitempty"`
}

// unreadableRecheck is how often an object that exceeds the budget of its namespace is reconciled.
const unreadableRecheck = time.Minute

// Room reports whether the budget of a namespace has room for an object of a size in bytes, as
// budget.Budget.Fits does. A nil Room means that every budget has room.
type Room func(namespace string, uid types.UID, size int) bool

// roomAgain returns why with another message if the budget has room for the object again. Writing the
// message to the status makes the API server send the object again, and the cache then keeps its spec.
func (r Room) roomAgain(obj metav1.Object, why *Unreadable) *Unreadable {
	if why.Size == 0 || r != nil && !r(obj.GetNamespace(), obj.GetUID(), why.Size) {
		return why
	}
	again := *why
	again.Message = messageRoomAgain.With()
	return &again
}

// Error implements error.
func (u *Unreadable) Error() string { return u.Message }

// Mark marks obj with u, so that obj is not reconciled.
func (u *Unreadable) Mark(obj metav1.Object) error {
	text, err := json.Marshal(mark{*u, token})
	if err != nil {
		return err
	}
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[UnreadableAnnotation] = string(text)
	obj.SetAnnotations(annotations)
	return nil
}

// UnreadableIn returns why an object has no spec, or nil.
func UnreadableIn(obj metav1.Object) *Unreadable {
	text, marked := obj.GetAnnotations()[UnreadableAnnotation]
	if !marked {
		return nil
	}
	var m mark
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Token != token {
		return nil
	}
	return &m.Unreadable
}

// reportUnreadable writes to the status of an object why it is not reconciled, and logs the reason unless the status
// has it already.
func (p *Pipeline[T]) reportUnreadable(ctx context.Context, key Key, cached T, why *Unreadable) (Result, error) {
	why = p.Room.roomAgain(cached, why)
	said := conditions.Find(*cached.StatusConditions(), conditions.Ready)
	if said == nil || said.Message != why.Message || said.ObservedGeneration != cached.GetGeneration() {
		klog.FromContext(ctx).Error(nil, "Object is not reconciled", "reason", why.Reason, "message", why.Message)
	}
	_, err := p.call(ctx, key, cached, func(context.Context, T) (Result, error) { return Result{}, why })
	return Result{}, err
}

// readable returns the object to pass to the Finalizer: cached or, if cached has no spec, the object
// from the API server. ok is false if the spec cannot be read at all. The caller then removes the
// finalizer without a call of the Finalizer.
func (p *Pipeline[T]) readable(ctx context.Context, key Key, cached T) (obj T, ok bool, err error) {
	why := UnreadableIn(cached)
	if why == nil {
		return cached, true, nil
	}
	if why.Stored {
		obj, err = p.Client(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return cached, false, AwaitDeletion()
		}
		if err != nil {
			return cached, false, fmt.Errorf("reading %s %s before it is finalized: %w", p.Kind, key, err)
		}
		if obj.GetUID() != cached.GetUID() || obj.GetDeletionTimestamp() == nil || !slices.Contains(obj.GetFinalizers(), p.FinalizerName) {
			return cached, false, AwaitDeletion()
		}
		if UnreadableIn(obj) == nil {
			return obj, true, nil
		}
	}
	klog.FromContext(ctx).Error(nil, "Removing the finalizer without finalizing the object, because its spec cannot be read; its resources outside of the cluster stay", "reason", why.Reason, "message", why.Message)
	return cached, false, nil
}
