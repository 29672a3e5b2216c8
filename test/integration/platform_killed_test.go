//go:build integration

package integration

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/windlass/pkg/apis/windlass/v1alpha1"
	"windlass.dev/windlass/test/framework"
)

// trap is a proxy of an API server. It holds one write of the controller to a Platform or its children, so that the
// test can kill the controller at this write.
type trap struct {
	server http.Handler

	mu    sync.Mutex
	about *regexp.Regexp // matches the paths of writes to the Platform and its children; nil if the trap is not armed
	late  bool           // whether the API server executes the held write
	held  bool           // whether the trap has held a write since it was armed
	hit   chan struct{}  // closed when a write is held
}

// arm makes the trap hold the first write to the Platform with the name of the namespace, or to an App or At of the
// Platform. If late is set, the API server executes the held write. The trap closes the returned channel when it holds
// the write.
func (s *trap) arm(namespace string, late bool) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.about = regexp.MustCompile(`/platforms/` + namespace + `(/status)?$|/namespaces/` + namespace + `/(apps|ats)(/` +
		namespace + `-[a-z]+)?$`)
	s.late, s.held, s.hit = late, false, make(chan struct{})
	return s.hit
}

// disarm lets all requests through from now on.
func (s *trap) disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.about = nil
}

// holds reports whether the trap has held a write since it was armed. The API server may still execute the write.
func (s *trap) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// catches returns the channel to close if the trap must hold the request, or nil. late reports whether the API server
// must execute the held write. after reports whether the request is a write after the held write.
func (s *trap) catches(r *http.Request) (hit chan<- struct{}, late, after bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodGet || s.about == nil || !s.about.MatchString(r.URL.Path) {
		return nil, false, false
	}
	if s.held {
		return nil, false, true
	}
	s.held = true
	return s.hit, s.late, false
}

// ServeHTTP implements http.Handler.
func (s *trap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hit, late, after := s.catches(r)
	if hit == nil && !after {
		s.server.ServeHTTP(w, r)
		return
	}
	if hit != nil {
		if late {
			s.server.ServeHTTP(httptest.NewRecorder(), r)
		}
		close(hit)
	}
	<-r.Context().Done() // send no response to the controller
}

// TestRestartedControllerFinishesTransition kills the controller at the first write of each transition, once before and
// once after the API server executes the write, and starts another controller. (The plans of test/faults cover every
// write, but they run the operator in the test process.)
func TestRestartedControllerFinishesTransition(t *testing.T) {
	t.Parallel()
	p, s := framework.Own(t), &trap{}
	kubeconfig := startProxy(t, p.Cluster, func(server http.Handler) http.Handler {
		s.server = server
		return s
	})
	start := func() *framework.Process {
		return framework.Launch(t, p.Cluster, "--kubeconfig", kubeconfig, "--leader-elect=false")
	}
	running, kills := start(), 0
	defer func() { running.Terminate() }()
	names := []string{}
	for name := range transitions {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		tr := transitions[name]
		for _, late := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				namespace := newNamespace(t, p)
				before := tr.begin(t, p, namespace)
				hit := s.arm(namespace, late)
				tr.act(t, p, namespace)
				caught := s.trapped(t, p, namespace, hit)
				if caught {
					running.Kill()
					kills++
				}
				s.disarm() // so that the next controller can write
				if caught {
					running = start()
				}
				tr.end(t, p, namespace, before)
			})
		}
	}
	t.Logf("the controller was killed %d times in %d transitions", kills, len(transitions))
	if kills < 2*len(transitions) {
		t.Error("want two kills in each transition")
	}
}

// trapped waits until the trap holds a write or the Platform is Ready. It reports whether the trap holds a write.
func (s *trap) trapped(t *testing.T, p *framework.Installation, platform string, hit <-chan struct{}) (caught bool) {
	t.Helper()
	framework.Eventually(t, "the trap to hold a write, or the Platform to be Ready",
		func(ctx context.Context) (bool, error) {
			select {
			case <-hit:
				caught = true
				return true, nil
			default:
			}
			now, err := p.Windlass.WindlassV1alpha1().Platforms().Get(ctx, platform, metav1.GetOptions{})
			return err == nil && !s.holds() && now.Status.ObservedGeneration == now.Generation &&
				now.Status.Phase == v1alpha1.PlatformReady, err
		})
	return caught
}

// newNamespace creates a namespace and returns its name. Nothing deletes it, because the cluster belongs to one test.
func newNamespace(t *testing.T, p *framework.Installation) string {
	t.Helper()
	created, err := p.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created.Name
}
