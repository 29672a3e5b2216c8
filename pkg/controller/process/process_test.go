package process

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/clock"

	"windlass.dev/windlass/pkg/controller"
)

// diary records steps in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

// toy is an object that a controller reconciles.
type toy struct {
	corev1.ConfigMap
	conditions []metav1.Condition
	observed   int64
}

func (t *toy) StatusConditions() *[]metav1.Condition { return &t.conditions }
func (t *toy) StatusObservedGeneration() *int64      { return &t.observed }

func example() *toy {
	return &toy{ConfigMap: corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Toy"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example"},
	}}
}

// newProcess returns a process, and a function that sends the process the signal to end. The process writes
// a line to d when it writes an Event, and calls pass in its only reconcile.
func newProcess(t *testing.T, d *diary, pass func(p *process)) (p *process, signal context.CancelFunc) {
	t.Helper()
	ctx, signal := context.WithCancel(t.Context())
	client := fake.NewClientset()
	client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		d.write("event written")
		return false, nil, nil
	})
	queue := controller.NewQueue("toy", clock.RealClock{})
	p = &process{ctx: ctx, Options: Options{Workers: 1}, failed: make(chan error, 1)}
	p.Events = controller.NewEvents(client.EventsV1(), runtime.NewScheme(), "example.com/toys", "self", clock.RealClock{})
	p.Controllers = []*controller.Controller{controller.New("toy", queue, func(
		context.Context, controller.Key,
	) (controller.Result, error) {
		pass(p)
		return controller.Result{}, nil
	})}
	queue.Add(controller.Key{Namespace: "default", Name: "example"}, controller.Urgent)
	return p, signal
}

func TestSignalStopsProcessInOrder(t *testing.T) {
	d := &diary{}
	begun := make(chan struct{})
	p, signal := newProcess(t, d, func(p *process) {
		close(begun)
		<-p.ctx.Done()        // the signal comes during the reconcile
		d.write("pass ended") // before the Event, which may be written at once
		p.Events.Event(example(), corev1.EventTypeNormal, "Done", "It is done.")
	})
	released := make(chan struct{})
	p.Serve = func(context.Context) error {
		<-released
		d.write("webhook ended")
		return nil
	}
	p.startServe()
	ended := make(chan error, 1)
	go func() {
		ended <- p.live(func(leading context.Context) error {
			p.startWorkers()
			<-leading.Done()
			d.write("lease released")
			close(released)
			return nil
		})
		d.write("process ended")
	}()
	<-begun
	signal()
	if err := <-ended; err != nil {
		t.Errorf("it ended with: %v", err)
	}
	eventually(t, "the end", func() bool { return slices.Contains(d.read(), "process ended") })
	want := []string{"pass ended", "event written", "lease released", "webhook ended", "process ended"}
	if got := d.read(); !slices.Equal(want, got) {
		t.Errorf("wanted %q, got %q", want, got)
	}
}

func TestProcessStopsAfterLostLeaseOrFailedWebhook(t *testing.T) {
	failure := errors.New("the port is gone")
	for name, c := range map[string]struct {
		elect func(context.Context) error
		serve func(context.Context) error
		want  error
	}{
		"because its lease is lost": {
			elect: func(context.Context) error { return errLeaseLost },
			serve: func(ctx context.Context) error { <-ctx.Done(); return nil },
			want:  errLeaseLost,
		},
		"because its webhook has failed": {
			elect: func(ctx context.Context) error { <-ctx.Done(); return nil },
			serve: func(context.Context) error { return failure },
			want:  failure,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, signal := newProcess(t, &diary{}, func(*process) {})
			defer signal()
			p.Serve = c.serve
			p.startServe()
			if err := p.live(c.elect); !errors.Is(err, c.want) {
				t.Errorf("it ended with: %v", err)
			}
		})
	}
}

// TestProcessIsReadyOnceCachesAreFilled tries a kind whose cache is filled, and a kind whose cache is never filled.
func TestProcessIsReadyOnceCachesAreFilled(t *testing.T) {
	for name, filled := range map[string]bool{"with a cache": true, "without a cache, after a minute": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := cachetesting.NewFakeControllerSource()
				defer source.Shutdown()
				informer := cache.NewSharedInformer(source, &corev1.Secret{}, 0)
				queue := controller.NewQueue("toy", clock.RealClock{})
				defer queue.ShutDown()
				toy := controller.New("toy", queue, nil)
				toy.Watch(informer, controller.SelfHandler(queue, controller.NewTracker()))
				warm, began := newWarmUp(Instance{Controllers: []*controller.Controller{toy}}), time.Now()
				if warm.check() == nil {
					t.Error("ready before the cache is filled")
				}
				if filled {
					go informer.RunWithContext(t.Context())
				}
				if !warm.wait(t.Context()) || (time.Since(began) == cachesPatience) == filled {
					t.Errorf("it waited for %s", time.Since(began))
				}
				if err := warm.check(); err != nil {
					t.Errorf("not ready though the other kinds can work: %v", err)
				}
			})
		})
	}
}

func TestEndpointsSayWhichKindIsNotWatched(t *testing.T) {
	source := cachetesting.NewFakeControllerSource()
	defer source.Shutdown()
	informer := cache.NewSharedInformer(source, &corev1.Secret{}, 0)
	queue := controller.NewQueue("slow", clock.RealClock{})
	defer queue.ShutDown()
	slow := controller.New("slow", queue, nil)
	slow.Watch(informer, controller.SelfHandler(queue, controller.NewTracker()))
	handler := health(nil, func() error { return nil }, running(slow))
	Metrics{Plain: true}.addTo(handler, unprotected, running(slow))
	get := func(path string) string {
		t.Helper()
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if response.Code != http.StatusOK {
			t.Errorf("GET %s: status %d", path, response.Code)
		}
		return response.Body.String()
	}
	want := func(when, path, words string) {
		t.Helper()
		if body := get(path); !strings.Contains(body, words) {
			t.Errorf("%s, GET %s does not contain %q: %.2000s", when, path, words, body)
		}
	}
	want("before the cache has synced", "/readyz?verbose", "[-]slow is not watched: the log of the operator "+
		"says why\nok\n")
	want("before the cache has synced", "/metrics", `windlass_kind_watched{controller="slow"} 0`)
	go informer.RunWithContext(t.Context())
	if !slow.WaitForSync(t.Context()) {
		t.Fatal("the cache has not synced")
	}
	want("with a cache", "/readyz?verbose", "[+]slow ok\nok\n")
	want("with a cache", "/metrics", `windlass_kind_watched{controller="slow"} 1`)
	if body := get("/readyz"); body != "ok\n" {
		t.Errorf("GET /readyz: got %q, want ok", body)
	}
}
