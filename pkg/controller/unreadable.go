package controller

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// UnreadableAnnotation marks, in a cache and nowhere else, an object that is not there as it is
// stored. Who fills the cache sets it, and removes one that a user has set. Its value is an
// Unreadable as JSON.
const UnreadableAnnotation = AnnotationDomain + "/unreadable"

// Unreadable says why an object is not in a cache as it is stored. Such an object is not
// reconciled: its status says why, and it can be deleted.
type Unreadable struct {
	// Reason is that of the condition Stalled, an identifier in CamelCase.
	Reason string `json:"reason"`
	// Message is a sentence that names the field, or the limit, and says what to do.
	Message string `json:"message"`
	// Identity says that the object has no spec in the cache, and Stored that the API server
	// returns a spec that can be read.
	Identity bool `json:"identity,omitempty"`
	Stored   bool `json:"stored,omitempty"`
	// Size is how many bytes of its namespace's budget the object needs, if it is not cached
	// for want of them. Zero means that it is not cached for another reason.
	Size int `json:"size,omitempty"`
}

// unreadableRecheck is how often an object that is not cached for want of room is looked at
// again.
const unreadableRecheck = time.Minute

// Room reports whether the budget of a namespace has room for an object of a size in bytes. Nil
// means that it always has. budget.Budget.Fits is one.
type Room func(namespace string, uid types.UID, size int) bool

// roomAgain replaces why if there is room for the object by now. Writing it to the status makes
// the API server send the object again, and the cache takes it then.
func (r Room) roomAgain(obj metav1.Object, why *Unreadable) *Unreadable {
	if why.Size == 0 || r != nil && !r(obj.GetNamespace(), obj.GetUID(), why.Size) {
		return why
	}
	again := *why
	again.Message = "There is room for the object in the budget of its namespace again. It is being read."
	return &again
}

// Error implements error.
func (u *Unreadable) Error() string { return u.Message }

// Mark makes obj an object that is not reconciled.
func (u *Unreadable) Mark(obj metav1.Object) error {
	text, err := json.Marshal(u)
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

// UnreadableIn returns why a cached object is not as it is stored, or nil.
func UnreadableIn(obj metav1.Object) *Unreadable {
	text, marked := obj.GetAnnotations()[UnreadableAnnotation]
	if !marked {
		return nil
	}
	u := &Unreadable{}
	if json.Unmarshal([]byte(text), u) != nil {
		return &Unreadable{Reason: ReasonError, Message: "The object cannot be read.", Identity: true}
	}
	return u
}

// unread is the name of the no-op of an object whose status says why it is not reconciled.
const unread = "\x00unreadable"

// refuse says in the status of an object why it is not reconciled. It does so, and logs it, once
// for each version of the object and each reason.
func (p *Pipeline[T]) refuse(ctx context.Context, key Key, cached T, why *Unreadable) (Result, error) {
	why = p.Room.roomAgain(cached, why)
	seen := NewVersions()
	seen.Add(cached, nil)
	seen.AddText([]byte(why.Message))
	version, known := seen.Sum()
	if known && p.Tracker.IsNoOp(key, unread, version) {
		return Result{}, why
	}
	klog.FromContext(ctx).Error(nil, "Object is not reconciled", "reason", why.Reason, "message", why.Message)
	_, _, err := p.call(ctx, key, cached, func(context.Context, T) (Result, error) { return Result{}, why })
	if same := (*Unreadable)(nil); errors.As(err, &same) {
		p.Tracker.RecordNoOp(key, unread, version)
	}
	return Result{}, err
}

// readable returns what an object that is being deleted is finalized with: the object itself,
// or what the API server says of one whose spec is not in the cache. It is not ok if its spec
// cannot be read at all: then nothing outside of the cluster is deleted with the object.
func (p *Pipeline[T]) readable(ctx context.Context, key Key, cached T) (obj T, ok bool, err error) {
	why := UnreadableIn(cached)
	if why == nil || !why.Identity {
		return cached, true, nil
	}
	if why.Stored {
		if obj, err = p.Client(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{}); err != nil {
			return cached, false, err
		}
		if obj.GetUID() != cached.GetUID() || obj.GetDeletionTimestamp() == nil || !slices.Contains(obj.GetFinalizers(), p.FinalizerName) {
			return cached, false, AwaitDeletion()
		}
		if live := UnreadableIn(obj); live == nil || !live.Identity {
			return obj, true, nil
		}
	}
	klog.FromContext(ctx).Error(nil, "Object is deleted without finalizing it: its spec cannot be read, and what it made outside of the cluster stays", "reason", why.Reason, "message", why.Message)
	return cached, false, nil
}
