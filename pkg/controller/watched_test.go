package controller

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"
)

// secretServer is an API server that serves Secrets only with the permission to list and watch them.
type secretServer struct {
	mu      sync.Mutex
	allowed bool
	watches []*apiwatch.RaceFreeFakeWatcher
}

// setAllowed sets whether clients may read Secrets, and ends all watches.
func (s *secretServer) setAllowed(allowed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = allowed
	for _, w := range s.watches {
		w.Stop()
	}
	s.watches = nil
}

func (s *secretServer) check() error {
	if s.allowed {
		return nil
	}
	return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no permission"))
}

func (s *secretServer) list(context.Context, metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, s.check()
}

func (s *secretServer) watch(context.Context, metav1.ListOptions) (apiwatch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := apiwatch.NewRaceFreeFake()
	s.watches = append(s.watches, w)
	return w, s.check()
}

// IsWatchListSemanticsUnSupported makes reflectors list before they watch.
func (*secretServer) IsWatchListSemanticsUnSupported() bool { return true }

func TestControllerSaysWhetherItsKindIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
		ctx := klog.NewContext(t.Context(), logger)
		log := logger.GetSink().(ktesting.Underlier).GetBuffer()
		server := &secretServer{}
		informer := cache.NewSharedInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: server.list, WatchFuncWithContext: server.watch,
		}, server), &corev1.Secret{}, 0)
		queue := NewQueue("watched", clock.RealClock{})
		defer queue.ShutDown()
		c := New("watched", queue, nil)
		c.Watch(informer, cache.ResourceEventHandlerFuncs{})
		c.watchFailures = newWatchFailures(clock.RealClock{})
		// client-go sleeps until the time outside of the bubble
		c.watchFailures.handle = func(context.Context, *cache.Reflector, error) {}
		if err := c.watchFailures.observe("watched", informer); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer synctest.Wait()
		defer cancel()
		go informer.RunWithContext(ctx)
		want := func(when string, watched bool) {
			t.Helper()
			if got := c.Watched(); got != watched {
				t.Errorf("%s, Watched is %v", when, got)
			}
		}
		pass := func(duration time.Duration) { <-time.After(duration); synctest.Wait() } // in the time of the bubble
		pass(10 * time.Minute)
		want("without the permission", false)
		if lines := strings.Count(log.String(), "Failed to watch a kind"); lines < 5 || lines > 10 {
			t.Errorf("%d log lines in 10 minutes, want 5 to 10", lines)
		}
		server.setAllowed(true)
		pass(10 * time.Minute)
		want("with the permission", true)
		server.setAllowed(false)
		pass(5 * time.Minute)
		want("after the permission was taken away", false)
		server.setAllowed(true)
		pass(10 * time.Minute)
		want("with the permission again", true)
	})
}

func TestExpiredWatchIsNoFailure(t *testing.T) {
	t.Parallel()
	f := newWatchFailures(clock.RealClock{})
	if f.note(apierrors.NewResourceExpired("too old")) || f.recent() {
		t.Error("an expired resource version counts as a failure")
	}
}
