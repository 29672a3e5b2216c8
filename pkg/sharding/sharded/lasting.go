package sharded

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// lasting is a watch that does not end with the context in which it began. A stream may continue it. The caller must
// stop it.
type lasting struct {
	watch.Interface
	cancel context.CancelFunc
}

// beginLasting begins a watch. It returns an error if ctx ends before the watch has begun.
func beginLasting(ctx context.Context, options metav1.ListOptions, open opener) (watch.Interface, error) {
	lastingCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, cancel)
	events, err := open(lastingCtx, options)
	ended := !detach()
	if err != nil {
		cancel()
		return nil, err
	}
	own := &lasting{events, cancel}
	if ended {
		own.Stop()
		return nil, ctx.Err()
	}
	return own, nil
}

// Stop implements watch.Interface.
func (l *lasting) Stop() {
	l.Interface.Stop()
	l.cancel()
}

// probation is how long a watch without events must last before a stream relies on it. If a watch fails at once, for
// example because its version is too old, the API server says so at its beginning.
const probation = 200 * time.Millisecond

// errEnded is the error of a watch that ended before its first event.
var errEnded = errors.New("the watch ended before its first event")

// beginProven begins a watch, and reads it until its first event or the end of its probation. It returns an error if
// the watch fails or ends before that.
func beginProven(
	ctx context.Context, options metav1.ListOptions, open opener,
) (events watch.Interface, first []watch.Event, err error) {
	if events, err = beginLasting(ctx, options, open); err != nil {
		return nil, nil, err
	}
	proven := time.NewTimer(probation)
	defer proven.Stop()
	select {
	case <-proven.C:
		select {
		case event, open := <-events.ResultChan(): // this process may have been slow
			first, err = firstOf(event, open)
		default:
		}
	case <-ctx.Done():
		err = ctx.Err()
	case event, open := <-events.ResultChan():
		first, err = firstOf(event, open)
	}
	if err == nil {
		return events, first, nil
	}
	go events.Stop() // it may wait for the network
	return nil, nil, err
}

// firstOf returns the first events of a watch, or an error if the watch has failed or ended. open says whether there is
// an event.
func firstOf(event watch.Event, open bool) (first []watch.Event, err error) {
	switch {
	case !open:
		return nil, errEnded
	case event.Type == watch.Error:
		return nil, apierrors.FromObject(event.Object)
	}
	return []watch.Event{event}, nil
}
