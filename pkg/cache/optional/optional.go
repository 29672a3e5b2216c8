// Package optional lists and watches API types that the API server may not have, because a cluster may lack their
// CustomResourceDefinitions. While the API server lacks a type, the informer of the type is empty and counts as synced.
// The same holds at first for a type that the client may not list.
package optional

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// interval is the time between two attempts to list an absent type.
const interval = 30 * time.Second

// IsTypeMissing reports whether err is the response to a request for a type that the API server lacks. The response to
// a request for a missing object names the object.
func IsTypeMissing(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// ListWatch returns a ListerWatcher like of, for a type that may be absent. While the type is absent, each list is
// empty, and a watch lasts until the type is not absent. The watch then ends with the error Expired, after which a
// reflector lists again.
func ListWatch(of cache.ListerWatcherWithContext) cache.ListerWatcher {
	t := &optionalType{of: of}
	return listOnly{&cache.ListWatch{ListWithContextFunc: t.list, WatchFuncWithContext: t.watch}}
}

// listOnly makes reflectors list, instead of requesting the initial list as events of a watch.
type listOnly struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is called by reflectors: see k8s.io/client-go/util/watchlist.
func (listOnly) IsWatchListSemanticsUnSupported() bool { return true }

type optionalType struct {
	of cache.ListerWatcherWithContext
	// listed is true after the first list that succeeded. From then on, an API server that does not let the client list
	// the type counts as broken, and the informer keeps its objects.
	listed atomic.Bool
	// absent is true if the type was absent at the last list.
	absent atomic.Bool
}

func (t *optionalType) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := t.of.ListWithContext(ctx, options)
	isAbsent := t.isAbsent(err)
	t.absent.Store(isAbsent)
	if !isAbsent {
		if err == nil {
			t.listed.Store(true)
		}
		return list, err
	}
	return &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "0"}}, nil // the next list may have any version
}

// isAbsent reports whether err, the error of a list or a watch, means that the type is absent.
func (t *optionalType) isAbsent(err error) bool {
	return IsTypeMissing(err) || apierrors.IsForbidden(err) && !t.listed.Load()
}

func (t *optionalType) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	events := make(chan watch.Event, 1)
	w := watch.NewProxyWatcher(events)
	if t.absent.Load() {
		go t.awaitType(ctx, w, events)
		return w, nil
	}
	real, err := t.of.WatchWithContext(ctx, options)
	if !t.isAbsent(err) {
		return real, err
	}
	expire(events) // the next list is empty
	return w, nil
}

// awaitType ends w when a list shows that the type is not absent.
func (t *optionalType) awaitType(ctx context.Context, w *watch.ProxyWatcher, events chan<- watch.Event) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			close(events)
			return
		case <-w.StopChan():
			close(events)
			return
		case <-ticker.C:
		}
		if _, err := t.of.ListWithContext(ctx, metav1.ListOptions{Limit: 1}); !t.isAbsent(err) {
			expire(events)
			return
		}
	}
}

// expire ends a watch with the error after which a reflector lists again.
func expire(events chan<- watch.Event) {
	events <- watch.Event{Type: watch.Error, Object: &metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: http.StatusGone,
		Message: "the type has appeared or disappeared",
	}}
	close(events)
}
