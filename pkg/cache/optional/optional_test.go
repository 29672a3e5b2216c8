package optional

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

var (
	resource = schema.GroupResource{Resource: "configmaps"}
	// typeMissing is the error for the response of an API server that lacks the type.
	typeMissing error = apierrors.NewGenericServerResponse(http.StatusNotFound, "list", resource, "",
		"404 page not found", 0, true)
)

// server lists one ConfigMap, or returns an error.
type server struct {
	mu    sync.Mutex
	err   error
	watch *watch.FakeWatcher
}

func (s *server) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	if s.watch != nil {
		s.watch.Stop() // as the API server does when a CustomResourceDefinition is deleted
		s.watch = nil
	}
}

func (s *server) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	return &corev1.ConfigMapList{
		ListMeta: metav1.ListMeta{ResourceVersion: "7"},
		Items:    []corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", ResourceVersion: "7"}}},
	}, nil
}

func (s *server) WatchWithContext(context.Context, metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	s.watch = watch.NewFake()
	return s.watch, nil
}

// informed runs a test with an informer of the server.
func informed(t *testing.T, s *server, test func(t *testing.T, informer cache.SharedIndexInformer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		informer := cache.NewSharedIndexInformer(
			ListWatch(s), &corev1.ConfigMap{}, 0, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { informer.RunWithContext(ctx) })
		test(t, informer)
		cancel()
		running.Wait()
	})
}

// holds waits for an interval and a retry of the reflector, and compares the number of cached objects.
func holds(t *testing.T, informer cache.SharedIndexInformer, want int) {
	t.Helper()
	<-time.After(interval + time.Minute)
	synctest.Wait()
	if !informer.HasSynced() {
		t.Error("the informer has not synced")
	}
	if got := len(informer.GetStore().List()); got != want {
		t.Errorf("the informer holds %d objects, want %d", got, want)
	}
}

func TestInformerFollowsTypeThatAppearsAndDisappears(t *testing.T) {
	s := &server{err: typeMissing}
	informed(t, s, func(t *testing.T, informer cache.SharedIndexInformer) {
		holds(t, informer, 0)
		s.set(nil)
		holds(t, informer, 1)
		s.set(typeMissing)
		holds(t, informer, 0)
		s.set(nil)
		holds(t, informer, 1)
	})
}

func TestForbiddenListEmptiesNoInformer(t *testing.T) {
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil // they compare the time of the bubble with the real time
	defer func() { utilruntime.ErrorHandlers = handlers }()
	forbidden := apierrors.NewForbidden(resource, "", errors.New("no rule"))
	s := &server{err: forbidden}
	informed(t, s, func(t *testing.T, informer cache.SharedIndexInformer) {
		holds(t, informer, 0)
		s.set(nil)
		holds(t, informer, 1)
		s.set(forbidden)
		holds(t, informer, 1)
	})
}

func TestOtherErrorsAreNoMissingType(t *testing.T) {
	for name, err := range map[string]error{
		"a missing object":  apierrors.NewNotFound(resource, "a"),
		"a missing right":   apierrors.NewForbidden(resource, "", errors.New("no rule")),
		"a broken server":   apierrors.NewServiceUnavailable("starting"),
		"a broken network":  errors.New("no route to host"),
		"no error at all":   nil,
		"a conflict":        apierrors.NewConflict(resource, "a", errors.New("changed")),
		"an unknown server": apierrors.NewGenericServerResponse(http.StatusBadGateway, "list", resource, "", "", 0, true),
	} {
		if IsTypeMissing(err) {
			t.Errorf("%s counts as a missing type", name)
		}
	}
	starting := cache.ToListerWatcherWithContext(ListWatch(&server{err: apierrors.NewServiceUnavailable("starting")}))
	if _, err := starting.ListWithContext(t.Context(), metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a list of a server that starts returns %v", err)
	}
}
