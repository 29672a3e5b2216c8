package controller_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/controller"
)

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// If handlers added keys before Run, the queue of a standby would grow by the keys of all objects that ever
// existed.
func TestQueueStaysEmptyUntilControllerRuns(t *testing.T) {
	source := cachetesting.NewFakeControllerSource()
	defer source.Shutdown()
	source.Add(secret("old"))
	informer := cache.NewSharedInformer(source, &corev1.Secret{}, 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go informer.RunWithContext(ctx)
	queue := controller.NewQueue("", clock.RealClock{})
	passes := make(chan string)
	c := controller.New(uniqueName(), queue, func(_ context.Context, key controller.Key) (controller.Result, error) {
		passes <- key.Name
		return controller.Result{}, nil
	})
	c.Watch(informer, controller.SelfHandler(queue, controller.NewTracker()))
	if !c.WaitForSync(ctx) {
		t.Fatal("the cache has not synced")
	}
	if n := queue.Len(); n != 0 {
		t.Errorf("%d keys wait for a controller that stands by", n)
	}
	running, _ := logTo(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(running, 1) }()
	if name := <-passes; name != "old" {
		t.Errorf("the first reconcile is of %s", name)
	}
	source.Add(secret("new"))
	if name := <-passes; name != "new" {
		t.Errorf("the second reconcile is of %s", name)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run ended with: %v", err)
	}
}

func TestRunReturnsErrorIfInformerHasStopped(t *testing.T) {
	source := cachetesting.NewFakeControllerSource()
	defer source.Shutdown()
	informer := cache.NewSharedInformer(source, &corev1.Secret{}, 0)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	informer.RunWithContext(ended)
	queue := controller.NewQueue("", clock.RealClock{})
	c := controller.New(uniqueName(), queue, nil)
	c.Watch(informer, controller.SelfHandler(queue, controller.NewTracker()))
	ctx, _ := logTo(t.Context())
	if err := c.Run(ctx, 1); err == nil {
		t.Error("Run did not fail")
	}
}

// countedInformer counts the handlers that are registered with an informer.
type countedInformer struct {
	cache.SharedInformer
	registered, removed int
}

func (i *countedInformer) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	i.registered++
	return i.SharedInformer.AddEventHandler(handler)
}

func (i *countedInformer) RemoveEventHandler(registration cache.ResourceEventHandlerRegistration) error {
	i.removed++
	return i.SharedInformer.RemoveEventHandler(registration)
}

func TestControllersShareRegistration(t *testing.T) {
	source := cachetesting.NewFakeControllerSource()
	defer source.Shutdown()
	source.Add(secret("old"))
	shared := cache.NewSharedInformer(source, &corev1.Secret{}, 0)
	var informers []*countedInformer // wrappers of one informer, as the generated methods return them
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go shared.RunWithContext(ctx)
	const n = 3
	var controllers []*controller.Controller
	passes := make(chan string)
	for range n {
		queue := controller.NewQueue("", clock.RealClock{})
		c := controller.New(uniqueName(), queue, func(_ context.Context, key controller.Key) (controller.Result, error) {
			passes <- key.Name
			return controller.Result{}, nil
		})
		informer := &countedInformer{SharedInformer: shared}
		c.Watch(informer, controller.SelfHandler(queue, controller.NewTracker()))
		controllers, informers = append(controllers, c), append(informers, informer)
	}
	running, _ := logTo(ctx)
	ended := make(chan error, 1)
	go func() { ended <- controller.RunAll(running, 1, controllers...) }()
	for _, want := range []string{"old", "new"} {
		for range n {
			if name := <-passes; name != want {
				t.Errorf("a reconcile is of %s, want %s", name, want)
			}
		}
		source.Add(secret("new"))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("RunAll ended with: %v", err)
	}
	registered, removed := 0, 0
	for _, informer := range informers {
		registered, removed = registered+informer.registered, removed+informer.removed
	}
	if registered != 1 || removed != 1 {
		t.Errorf("%d handlers were registered, and %d removed", registered, removed)
	}
}
